"""The entry point: help, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from freshline.cli.error_handling import errors_reported
from freshline.cli.main import COMMANDS, cli
from tests.cli.conftest import Freshline

# As the program itself has it: a command keeps the help option of its first context, also for later tests.
NARROW: dict[str, Any] = {"terminal_width": 80, "help_option_names": ["-h", "--help"]}


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_with_examples(tmp_path: Path, name: str) -> None:
    """The help of each command explains it and shows calls of it."""
    text = Freshline(tmp_path)(name, "--help").stdout
    assert "Examples:" in text
    assert f"freshline {name}" in text.split("Examples:")[1]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("backfill", "Error: name an asset, or give a command: approve, cancel, create, deny, list,"),
        ("table", "Error: a command is missing; known are "),
    ],
)
def test_a_group_without_a_command_says_what_is_missing(tmp_path: Path, name: str, error: str) -> None:
    """The usage is shown once, and the error is not the help."""
    text = Freshline(tmp_path)(name, code=2).stderr
    assert text.startswith(f"Usage: cli {name} ")
    assert text.lower().count("usage:") == 1
    assert error in text.replace("\n", " ")
    assert "Options:" not in text


def _help_texts(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield command.get_help(ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            part = command.get_command(ctx, name)
            assert part is not None
            yield from _help_texts(part, click.Context(part, info_name=name, parent=ctx, **NARROW))


def test_help_fits_on_a_terminal_of_80_columns() -> None:
    """click wraps sentences but not examples: a longer one would be folded in the middle of a word."""
    root = click.Context(cli, info_name="freshline", **NARROW)
    lines = [line for text in _help_texts(cli, root) for line in text.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_help_imports_neither_spark_nor_driver_nor_rich() -> None:
    """Starting fast: the list of commands imports none of them, and no help text needs pyspark, FastAPI or rich."""
    code = (
        "import sys; from freshline.cli.main import cli, COMMANDS\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "assert not {'psycopg', 'rich', 'duckdb', 'pydantic'} & set(sys.modules), sys.modules\n"
        "import importlib\n"
        "[importlib.import_module(f'freshline.cli.commands.{m}') for m, _, _ in COMMANDS.values()]\n"
        "assert not {'pyspark', 'fastapi', 'uvicorn', 'rich'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize(("words", "drawn"), [(["status"], ["rich"]), (["status", "--json"], [])])
def test_status_imports_the_driver_and_little_else(words: list[str], drawn: list[str]) -> None:
    """Starting fast: who only looks pays neither for definitions nor for logging nor for engines; JSON is not drawn."""
    code = (
        "import sys; from freshline.cli.main import cli\n"
        f"cli.main({words}, standalone_mode=False)\n"
        "heavy = {'deltalake', 'duckdb', 'fastapi', 'pydantic', 'pyspark', 'redis', 'rich', 'sqlglot', 'structlog'}\n"
        f"assert sorted(heavy & set(sys.modules)) == {drawn}, heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "shop.daily" in done.stdout


def test_a_command_that_reads_tables_ends_without_a_word_on_standard_error() -> None:
    """`freshline show`: an engine complains about what is left when the program ends, so nothing may be left."""
    code = "import sys, duckdb; from freshline.cli.main import main; sys.argv[1:] = ['--version']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_the_packages(freshline: Freshline) -> None:
    """`--version` names the program and its version."""
    assert freshline("--version").stdout.startswith("freshline 0.")


def test_an_unknown_command_is_answered_with_the_nearest(freshline: Freshline) -> None:
    """A typo in a command gets a hint and exit code 2."""
    result = freshline("statsu", code=2)
    assert "did you mean 'status'" in result.stderr
    assert "lists them" in freshline("xyzzy", code=2).stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_project_is_taken_before_and_after_the_command(freshline: Freshline, tmp_path: Path, place: str) -> None:
    """`--project` names the directory on either side of the command and wins over the environment."""
    option = ["--project", str(tmp_path / "nowhere")]
    words = [*option, "validate"] if place == "before" else ["validate", *option]
    assert "nowhere does not exist" in freshline(*words, code=2).stderr


def test_a_directory_that_is_no_project_gets_no_database(
    freshline: Freshline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in a wrong directory says so and leaves nothing there."""
    monkeypatch.delenv("FRESHLINE_DATABASE_URL")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is not a project" in freshline("status", "--project", str(empty), code=2).stderr
    assert list(empty.iterdir()) == []


def test_an_unreachable_database_is_one_sentence_without_the_password(
    freshline: Freshline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, what was tried, and never the password."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgresql://me:secret@127.0.0.1:1/none")
    for words in (["status"], ["db", "status"], ["db", "upgrade"]):
        result = freshline(*words, code=1)
        assert "reach" in result.stderr
        assert "127.0.0.1" in result.stderr
        assert "secret" not in result.output
        assert "Traceback" not in result.output


@pytest.mark.parametrize("words", [["status"], ["db", "status"], ["db", "upgrade"]])
def test_an_unreadable_address_is_not_shown(
    freshline: Freshline, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The driver quotes what it cannot read; a password may be in it."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgres//me:secret@here/none")
    result = freshline(*words, code=2)
    assert "postgresql://USER" in result.stderr
    assert "secret" not in result.output


def test_a_database_without_the_schema_says_what_to_run(
    freshline: Freshline, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty database is answered with the command that helps."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", empty_database_url)
    assert "freshline db upgrade" in freshline("status", code=1).stderr


def test_bad_settings_are_wrong_usage(freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad environment variable is named, exit code 2."""
    monkeypatch.setenv("FRESHLINE_POLL_MS", "soon")
    assert "FRESHLINE_POLL_MS is 'soon'" in freshline("status", code=2).stderr


BAD_VALUES = [
    ["runs", "--limit", "0"],
    ["runs", "--limit", "100001"],
    ["runs", "--status", "odd"],
    ["runs", "--after", "zz"],
    ["events", "--after", "zz"],
    ["decisions", "--after", "zz"],
    ["decisions", "--workflow", "a", "--asset", "b"],
    ["runs", "--follow", "--after", "aaaaaa"],
    ["decisions", "--follow", "--after", "aaaaaa"],
    ["graph", "--format", "png"],
    ["report", "shop.raw", "--payload", "{bad"],
    ["report", "shop.raw", "--sequence", "-1"],
    ["run", "make-clean", "--param", "noequals"],
    ["run", "make-clean", "--param", "=1"],
    ["pause", "make-clean", "--until", "yesterday"],
    ["pause", "make-clean", "--until", "2001-01-01"],
    ["show", "shop.clean", "--version", "-1"],
    ["worker", "--slots", "0"],
    ["apply", "--baseline", "then"],
    ["logs", "short"],
    ["cancel", "short"],
]

UNKNOWN = [
    (["status", "shop.claen"], "did you mean 'shop.clean'"),
    (["why", "make-cleam"], "did you mean 'make-clean'"),
    (["why-not", "shop.dayly"], "did you mean 'shop.daily'"),
    (["graph", "shop.rav"], "did you mean 'shop.raw'"),
    (["runs", "--workflow", "make-dayly"], "did you mean 'make-daily'"),
    (["decisions", "--asset", "shop.dayly"], "did you mean 'shop.daily'"),
    (["show", "shop.claen"], "did you mean 'shop.clean'"),
    (["report", "shop.rav"], "did you mean 'shop.raw'"),
    (["expire", "shop.claen"], "did you mean 'shop.clean'"),
    (["run", "make-cleam"], "did you mean 'make-clean'"),
    (["pause", "make-cleam"], "did you mean 'make-clean'"),
    (["resume", "make-cleam"], "did you mean 'make-clean'"),
    (["reset", "make-cleam"], "did you mean 'make-clean'"),
    (["logs", "aaaaaaaa"], "freshline runs"),
    (["cancel", "aaaaaaaa"], "freshline runs"),
]


def test_bad_values_are_wrong_usage(applied: Freshline) -> None:
    """Exit code 2, a sentence on stderr, nothing on stdout, no traceback."""
    for words in BAD_VALUES:
        result = applied(*words, code=2)
        assert result.stdout == "", words
        assert "rror" in result.stderr, words
        assert "Traceback" not in result.stderr, words


def test_unknown_names_are_answered_with_the_nearest(applied: Freshline) -> None:
    """Exit code 1, what does not exist, and what was probably meant."""
    for words, hint in UNKNOWN:
        assert hint in applied(*words, code=1).stderr, words


class TestFailures:
    """Errors are printed in one place."""

    def _fail(self, error: BaseException, *, debug: bool = False) -> tuple[int, click.Context]:
        ctx = click.Context(cli)
        from freshline.cli.app import App  # noqa: PLC0415

        ctx.obj = App(debug=debug)
        with pytest.raises(click.exceptions.Exit) as caught, errors_reported(ctx):
            raise error
        return caught.value.exit_code, ctx

    def test_a_fault_of_ours_is_short_and_names_the_way_to_the_traceback(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Unexpected errors end with 1 and no traceback, unless asked for."""
        assert self._fail(ZeroDivisionError("oh"))[0] == 1
        told_shortly = capsys.readouterr().err
        assert "ZeroDivisionError: oh" in told_shortly
        assert "--debug" in told_shortly
        assert "Traceback" not in told_shortly
        self._fail(ZeroDivisionError("oh"), debug=True)
        assert "Traceback" in capsys.readouterr().err

    def test_an_interrupt_is_quiet(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Ctrl-C ends with 130 and says nothing."""
        assert self._fail(KeyboardInterrupt())[0] == 130
        assert capsys.readouterr() == ("", "")
