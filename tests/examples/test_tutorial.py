"""The tutorial, followed word by word in an empty directory: every file is written, every command is typed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.docs.pages import Page, session
from tests.waiting import wait_until

PAGE = Page("docs/tutorial.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w/]+\.yaml)`[^`]*\Z")
VARIES = re.compile(r"\d\d:\d\d:\d\d")
PATIENCE_S = 240.0


class Reader:
    """Somebody who follows the page, in a directory of its own and with two terminals."""

    def __init__(self, home: Path) -> None:
        self.home = self.here = home
        self.first: subprocess.Popen[bytes] | None = None
        programs = str(Path(sys.executable).parent)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FRESHLINE_")}
        self.environ = {**kept, "PATH": f"{programs}{os.pathsep}{kept['PATH']}", "COLUMNS": "200"}

    def follow(self) -> None:
        """Do everything that the page says, in its order."""
        before = 0
        for block in BLOCK.finditer(PAGE.text):
            language, content = block.groups()
            if language == "yaml":
                (name,) = FILE.findall(PAGE.text[before : block.start()])
                (self.here / name).write_text(content)
            elif language == "sh":
                for command in content.splitlines():
                    self.type(command)
            else:
                for command, shown in session(content):
                    self.compare(command, shown)
            before = block.end()

    def type(self, command: str) -> None:
        """Type a command whose output does not matter."""
        if command.startswith("python -m pip"):  # it is installed where the tests run
            return
        if command.startswith("cd "):
            self.here = self.here / command.removeprefix("cd ")
        elif command == "freshline dev":
            with (self.home / "first-terminal").open("wb") as screen:
                self.first = subprocess.Popen(
                    command.split(), cwd=self.here, env=self.environ, stdout=screen, stderr=subprocess.STDOUT
                )
            wait_until(lambda: "freshline is running" in self.screen, PATIENCE_S)
        else:
            subprocess.run(["bash", "-c", command], cwd=self.here, env=self.environ, check=True)

    @property
    def screen(self) -> str:
        """What the first terminal shows."""
        return (self.home / "first-terminal").read_text()

    def compare(self, command: str, shown: list[str]) -> None:
        """Type a command until it prints what the page shows; `...` stands for more. A run takes a moment."""
        printed = ""

        def as_shown() -> bool:
            nonlocal printed
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.here, env=self.environ, capture_output=True, text=True, check=False
            )
            printed = plain(done.stdout + done.stderr, self.home)
            return all(plain(line, self.home).strip(". ") in printed for line in shown)

        try:
            wait_until(as_shown, PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"$ {command}\n{printed}\nshown:\n{shown}\nfirst terminal:\n{self.screen}") from None

    def leave(self) -> None:
        """Press Ctrl-C in the first terminal, as the last sentence says."""
        if self.first is not None:
            self.first.send_signal(signal.SIGINT)
            assert self.first.wait(60) in {0, 130}


def plain(text: str, home: Path) -> str:
    """Return a text with single blanks and without what varies: times and the home directory."""
    return " ".join(VARIES.sub("*", text.replace(str(home.resolve()), "~")).split())


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Yield somebody in an empty directory; nothing runs afterwards."""
    reader = Reader(tmp_path)
    yield reader
    if reader.first is not None and reader.first.poll() is None:
        reader.first.kill()
        reader.first.wait()
    with suppress(subprocess.SubprocessError):
        subprocess.run(["freshline", "db", "stop"], cwd=reader.here, env=reader.environ, check=False, timeout=60)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(900)
def test_the_tutorial_can_be_followed_word_by_word(reader: Reader) -> None:
    """Every row of every file is in the tables once, and the page shows what a reader sees."""
    reader.follow()
    reader.leave()
