"""Texts and tables keep every character, fit on the terminal, and let nothing through that would act on it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshline.cli.render import output
from freshline.cli.render.text import CODES, NARROWEST, Table, Text, width_of

WORDS = st.text(st.sampled_from("ab -\n界e\u0301"), max_size=40)
STYLES = st.sampled_from(["", "bold red", *CODES])


def test_styles_are_codes_around_their_text() -> None:
    """Each piece in its own; an empty piece or style leaves no code behind."""
    text = Text("a ", ("b", "bold red"), ("", "dim"), Text((" c", "bright-blue")))
    assert text.plain == "a b c"
    assert text.painted == "a \x1b[1;31mb\x1b[0m\x1b[94m c\x1b[0m"
    assert Text.join(", ", ["x", Text(("y", "dim"))]).plain == "x, y"
    assert Text.join(", ", []).plain == ""


def test_what_would_act_on_a_terminal_is_left_out() -> None:
    """Colours, moves, titles, links and bells in what users' programs say; tabs and ends of lines stay."""
    said = "\x1b[31mred\x1b[0m\x1b[2J \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\r\x07\x9b1m\tend\n."
    assert Text(said).plain == "red link1m\tend\n."


def test_sentences_cannot_act_on_a_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors repeat what users and their programs said."""
    output.say("Error: \x1b[2Jgone")
    assert capsys.readouterr().err == "Error: gone\n"


@given(st.lists(st.tuples(WORDS, STYLES), max_size=5), st.integers(1, 12))
def test_folded_lines_keep_every_character_and_fit(pieces: list[tuple[str, str]], width: int) -> None:
    """Whatever the text: only ends of lines are added, and no line is wider than asked, but for one wide character."""
    text = Text(*pieces)
    lines = text.lines(width)
    assert "".join(line.plain for line in lines) == text.plain.replace("\n", "")
    assert all(width_of(line.plain) <= max(width, 2) for line in lines)
    assert [line.plain for line in text.lines()] == text.plain.split("\n")


@given(st.lists(st.lists(WORDS, min_size=3, max_size=3), max_size=6), st.integers(3 * NARROWEST + 4, 90))
def test_tables_fit_on_the_terminal_and_lose_nothing(rows: list[list[str]], width: int) -> None:
    """Columns give way until it fits; what was in a cell is still there."""
    table = output.table(["ONE", "TWO", "THREE"], rows)
    lines = [line.plain for line in table.lines(width)]
    assert all(width_of(line) <= width for line in lines)
    shown = sorted("".join(lines).replace(" ", ""))
    assert shown == sorted("".join(["ONETWOTHREE", *map("".join, rows)]).replace(" ", "").replace("\n", ""))


def test_a_table_side_by_side() -> None:
    """Wide characters count twice, the widest column is folded, and nothing stands behind the last cell."""
    rows: list[list[str | Text]] = [["界界", "x" * 20, Text(("ok", "green"))], ["b", "y", ""]]
    told = [line.plain for line in output.table(["A", "TEXT", ""], rows, title="all", indent=2).lines(24)]
    assert told == ["all", "  A     TEXT", "  界界  xxxxxxxxxxxx  ok", "        xxxxxxxx", "  b     y"]
    assert [line.plain for line in Table(["", ""], [[Text("no"), Text("head")]]).lines()] == ["no  head"]


@pytest.mark.parametrize(
    ("environ", "terminal", "colours"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], terminal: bool, colours: bool
) -> None:
    """Unless the environment says otherwise."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal)
    output.write_line(output.coloured("fresh"), screen)
    assert screen.getvalue() == ("\x1b[32mfresh\x1b[0m\n" if colours else "fresh\n")
