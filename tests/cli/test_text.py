"""Texts and tables keep every character, fit on the terminal, and pass no control characters on."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from freshline.cli.render import output
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.terminal import GAP, WORD, _kept, painted, table_lines
from freshline.cli.render.text import Text

WORDS = st.text(st.sampled_from("ab -\n界e\u0301"), max_size=40)
STYLES = st.sampled_from(["", "bold red", *output.STATE_COLOURS.values()])
SENTENCE = "it was computed from exactly the current inputs, so there is nothing to do"


def lines(table: Table, width: int | None = None) -> list[str]:
    """Return the lines of a table without colours."""
    return list(table_lines(table, width, colours=False))


def test_styles_are_codes_around_their_text() -> None:
    """Each piece in its own; an empty piece or style leaves no code behind."""
    text = Text("a ", ("b", "bold red"), ("", "dim"), Text((" c", "bright_blue")))
    assert text.plain == "a b c"
    assert painted(text) == "a \x1b[1;31mb\x1b[0m\x1b[94m c\x1b[0m"
    assert Text.join(", ", ["x", Text(("y", "dim"))]).plain == "x, y"
    assert Text.join(", ", []).plain == ""


def test_what_would_act_on_a_terminal_is_left_out() -> None:
    """Colours, moves, titles, links and bells in what users' programs say; tabs and ends of lines stay."""
    said = "\x1b[31mred\x1b[0m\x1b[2J \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\r\x07\x9b1m\tend\n."
    assert Text(said).plain == "red link1m\tend\n."


def test_sentences_cannot_act_on_a_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors repeat what users and their programs said."""
    output.message("Error: \x1b[2Jgone")
    assert capsys.readouterr().err == "Error: gone\n"


def test_cells_cannot_act_on_a_terminal_either() -> None:
    """Neither as cells nor in a title, on a terminal of any width or in a pipe, with colours or without."""
    table = Table.of(["\x1b[2JA"], [["\x1b[2Jgone\x07"], ["\x1b]0;title\x07kept"]], title="\x1b[2Jall")
    for width in (None, 80, 4):
        assert "".join(lines(table, width)).replace(" ", "") == "allAgonekept"
        shown = "".join(table_lines(table, width, colours=True))
        assert set(re.findall(r"\x1b\[[0-9;]*.|[\x00-\x1f]", shown)) <= {"\x1b[1m", "\x1b[0m"}


@given(st.lists(st.tuples(WORDS, STYLES), max_size=5), st.integers(1, 50), st.integers(0, 4))
def test_wrapped_lines_keep_every_word_and_fit(pieces: list[tuple[str, str]], width: int, hang: int) -> None:
    """Whatever the text: no word is broken or lost, and a line is too long only if it is a single word."""
    text = Text(*pieces)
    wrapped = [line.plain for line in text.wrapped(width, hang)]
    assert " ".join(wrapped).split() == text.plain.split()
    for line in wrapped:
        assert len(line) <= width or len(line.split()) == 1
    styles = [(character, style) for part, style in text.pieces for character in part if not character.isspace()]
    kept = [piece for line in text.wrapped(width, hang) for piece in line.pieces]
    assert [(character, style) for part, style in kept for character in part if not character.isspace()] == styles


def test_sentences_are_wrapped_at_spaces_and_stay_indented() -> None:
    """The second line begins where the first one did, or further in; a path that is too long can be copied."""
    text = Text("  what to do: run `freshline db upgrade`, then start it again")
    assert [line.plain for line in text.wrapped(42)] == [
        "  what to do: run `freshline db upgrade`,",
        "  then start it again",
    ]
    assert [line.plain for line in Text("see " + "x" * 30 + " now").wrapped(20, 2)] == ["see", "  " + "x" * 30, "  now"]


@example(rows=[["", " aaaaaaaa界", ""]], width=22, wraps=True)
@given(
    rows=st.lists(st.lists(WORDS, min_size=3, max_size=3), max_size=6), width=st.integers(22, 90), wraps=st.booleans()
)
def test_tables_fit_on_the_terminal_and_lose_nothing(rows: list[list[str]], width: int, wraps: bool) -> None:
    """Columns that may not be dropped give way until it fits; every cell is still there, and words are whole."""
    names = ["ONE", "TWO", "THREE"]
    table = Table.of([Column(name, wraps=6 * wraps) for name in names], rows)
    shown = lines(table, width)
    assert all(cell_len(line) <= width for line in shown)
    texts = [*_labels(table, width), *(cell for row in rows for cell in row)]
    together = sorted("".join(shown).replace(" ", ""))
    assert together == sorted("".join(texts).replace(" ", "").replace("\n", ""))
    words = [word for text in texts for word in text.split()]
    indented = [word for text in texts for line in text.split("\n") for word in WORD.findall(line)]
    if max(map(cell_len, indented), default=0) <= width - len("THREE") - GAP:
        assert sorted(word for line in shown for word in line.split()) == sorted(words)


def _labels(table: Table, width: int) -> list[str]:
    """Return the expected labels: once if the columns are side by side, without dropped empty ones, else per record."""
    kept = _kept(table, width)
    if kept is not None:
        return [table.columns[index].name for index in kept]
    return [column.name for row in table.rows for column, cell in zip(table.columns, row, strict=True) if cell.plain]


def test_a_table_side_by_side() -> None:
    """Wide characters count twice, and nothing stands behind the last cell."""
    rows: list[list[str | Text]] = [["界界", "x" * 20, Text(("ok", "green"))], ["b", "y", ""]]
    shown = lines(Table.of(["A", "TEXT", ""], rows, title="all", indent=2), 34)
    assert shown == ["all", "  A     TEXT", "  界界  xxxxxxxxxxxxxxxxxxxx  ok", "  b     y"]
    assert lines(Table.of(["", ""], [["no", "head"]])) == ["no  head"]


def test_sentences_in_a_table_give_way_first() -> None:
    """They are wrapped at spaces; names beside them are whole."""
    table = Table.of(["WORKFLOW", Column("WHY", wraps=28)], [["carriers-scorecard", SENTENCE]])
    assert lines(table, 60) == [
        "WORKFLOW            WHY",
        "carriers-scorecard  it was computed from exactly the current",
        "                    inputs, so there is nothing to do",
    ]


def test_columns_are_dropped_by_their_number_and_named() -> None:
    """The highest number goes first, one after another, and a last line names the columns that are not shown."""
    columns: Columns = ["ASSET", Column("ROWS", drop=1), Column("DATA", drop=2), Column("WHY", wraps=28)]
    table = Table.of(columns, [["flights.clean", "6,101", "fp1:c85ef5cf…", SENTENCE]])
    wide, narrow, narrowest = lines(table, 80), lines(table, 64), lines(table, 45)
    assert wide[0].split() == ["ASSET", "ROWS", "DATA", "WHY"]
    assert narrow[0].split() == ["ASSET", "ROWS", "WHY"]
    assert narrow[-1] == "(not shown in 64 columns: DATA)"
    assert narrowest[0].split() == ["ASSET", "WHY"]
    assert narrowest[-1] == "(not shown in 45 columns: ROWS, DATA)"


def test_the_last_resort_is_a_record_per_row() -> None:
    """If nothing may be dropped, each cell has its own line; empty ones have none."""
    table = Table.of(["ASSET", "DATA", "NOTE"], [["flights.clean", "fp1:c85ef5cf", ""], ["a", "b", "c d"]])
    assert lines(table, 22) == [
        "ASSET  flights.clean",
        "DATA   fp1:c85ef5cf",
        "",
        "ASSET  a",
        "DATA   b",
        "NOTE   c d",
    ]


def test_a_pipe_gets_everything_whole() -> None:
    """No column is dropped and no line broken, however long."""
    row = ["a" * 300, SENTENCE * 20, "end"]
    shown = lines(Table.of([Column("A", drop=1), Column("B", wraps=28), "C"], [row]))
    assert shown[1:] == ["  ".join(row)]


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
    """Unless the environment says otherwise; texts and tables agree."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal)
    output.write_line(output.coloured("fresh"), screen)
    assert screen.getvalue() == ("\x1b[32mfresh\x1b[0m\n" if colours else "fresh\n")
    monkeypatch.setattr("sys.stdout", screen)
    output.show(Table.of([""], [[output.coloured("fresh")]]))
    first, second = screen.getvalue().splitlines()
    assert first == second
