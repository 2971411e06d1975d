"""Completion of commands, asset ids and slugs in a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from freshline.api.server import Server
from freshline.cli.commands.completion import SHELLS, VARIABLE
from freshline.cli.main import COMMANDS, cli
from freshline.store.store import Store
from tests.cli.conftest import Freshline
from tests.rows import Rows


def complete(*words: str) -> list[str]:
    """Return what a shell offers for the last word."""
    made = BashComplete(cli, {}, "freshline", VARIABLE)
    return [one.value for one in made.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture
def names(rows: Rows, freshline: Freshline) -> None:
    """Insert a workflow, its asset and a source."""
    rows.source("shop.raw", "weather.raw")
    rows.workflow("make-clean", ["shop.clean"], ["shop.raw"])


@pytest.mark.usefixtures("names")
def test_names_by_what_the_parameter_takes() -> None:
    """Assets, workflows, or both; in arguments and options of commands and groups."""
    cases = {
        ("status", "sh"): ["shop.clean", "shop.raw"],
        ("why", "m"): ["make-clean"],
        ("run", ""): ["make-clean", "shop.clean", "shop.raw", "weather.raw"],
        ("pause", ""): ["make-clean"],
        ("report", "shop.r"): ["shop.raw"],
        ("runs", "--workflow", ""): ["make-clean"],
        ("runs", "--asset", "w"): ["weather.raw"],
        ("table", "versions", "shop.c"): ["shop.clean"],
        ("delivery", "list", "w"): ["weather.raw"],
        ("events", "--subject", "make"): ["make-clean"],
        ("show", "nothing"): [],
    }
    for words, expected in cases.items():
        assert complete(*words) == expected, words


def test_commands_and_choices_need_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are complete, and nothing else is asked."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    assert complete("st") == ["status"]
    assert complete("") == list(COMMANDS)
    assert complete("runs", "--state", "f") == ["failed"]
    assert complete("webhook", "red") == ["redeliver"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FRESHLINE_DATABASE_URL", "postgresql://127.0.0.1:1/none"),
        ("FRESHLINE_DATABASE_URL", "nonsense"),
        ("FRESHLINE_API_URL", "http://127.0.0.1:1"),
        ("FRESHLINE_PROJECT", "/nowhere"),
        ("FRESHLINE_POLL_MS", "soon"),
    ],
)
def test_what_cannot_be_asked_is_silence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    """A shell shows everything that is printed in the middle of the user's line."""
    monkeypatch.setenv(variable, value)
    assert complete("status", "a") == []
    assert capfd.readouterr() == ("", "")


def test_the_embedded_server_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key press must not start a database."""
    monkeypatch.delenv("FRESHLINE_DATABASE_URL", raising=False)
    monkeypatch.setenv("FRESHLINE_PROJECT", str(tmp_path))
    (tmp_path / "freshline.toml").write_text("")
    assert complete("status", "a") == []
    assert [path.name for path in tmp_path.iterdir()] == ["freshline.toml"]


@pytest.mark.usefixtures("names")
def test_names_over_the_api(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without a database."""
    server = Server(store, host="127.0.0.1", port=0)
    server.start()
    try:
        monkeypatch.delenv("FRESHLINE_DATABASE_URL")
        monkeypatch.setenv("FRESHLINE_API_URL", server.url)
        monkeypatch.setattr("freshline.cli.completion.CONNECT_S", 30)  # a busy machine answers late
        assert complete("status", "shop") == ["shop.clean", "shop.raw"]
    finally:
        server.stop()


def test_the_scripts_are_those_of_the_shells(freshline: Freshline) -> None:
    """Each calls the program back with its variable."""
    for shell in SHELLS:
        assert f"{VARIABLE}={shell}_complete" in freshline("completion", shell).stdout
    assert "'tcsh' is not one of" in freshline("completion", "tcsh", code=2).stderr
