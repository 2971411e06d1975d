"""What a job prints, as lines: long ones are cut, and no secret is in them, whole or in part."""

from __future__ import annotations

import pytest

from freshline.masking import Secrets
from freshline.worker.log_capture import MAX_LINE, MAX_LOGGED, LineSplitter, StepLog

SECRET = "correct horse battery staple"  # noqa: S105 - nobody's
KEY = "-----BEGIN KEY-----\r\nMIIEvQIBADANBg\r\n  kqhkiG9w0BAQ\r\nEF=\r\n-----END KEY-----\r\n"


def printed(text: str, *secrets: str, at_once: int = 1_000_000) -> list[str]:
    """Return what is shown of `text`, which arrives in pieces of `at_once` bytes."""
    known, splitter, shown = Secrets(secrets), LineSplitter(), list[str]()
    log = StepLog(lambda _, line: shown.append(line), known)
    data = text.encode()
    pieces = [data[n : n + at_once] for n in range(0, len(data), at_once)]
    for line in [*(line for piece in pieces for line in splitter.feed(piece, known)), *splitter.flush(known)]:
        log.write("stdout", line)
    return shown


def test_each_line_of_a_secret_is_hidden() -> None:
    """A key is printed line by line; what is too short to be one is shown, as with other secrets."""
    assert printed(f"key: {KEY}over\n", KEY) == ["key: ***", "***", "  ***", "EF=", "***", "over"]
    assert printed(KEY.replace("\r\n", "\\n"), KEY) == [r"***\n***\n  ***\nEF=\n***\n"]


@pytest.mark.parametrize("at_once", [1_000_000, 4_096, 1_000])
@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("inside", range(0, len(SECRET) + 1, 7))
def test_a_secret_is_not_shown_in_two_halves(inside: int, end: str, at_once: int) -> None:
    """Wherever a long line is cut, with or without an end, it is cut after its secrets are hidden."""
    shown = printed("." * (MAX_LINE - inside) + SECRET + "." * MAX_LINE + end, SECRET, at_once=at_once)
    for line in shown:
        assert len(line) <= MAX_LINE
        assert set(line) <= {".", "*"}


def test_a_line_without_an_end_is_shown_in_pieces() -> None:
    """Nothing of it is lost, and it does not grow without bound."""
    for secrets in ((), (SECRET,)):
        assert "".join(printed("x" * 3 * MAX_LINE, *secrets, at_once=1_000)) == "x" * 3 * MAX_LINE
    assert printed(SECRET * 2_000, SECRET, at_once=1_000) == ["***" * 2_000]


def test_a_text_that_was_cut_does_not_end_with_a_secret() -> None:
    """A logger takes 64 K of a line; if what is hidden makes it short, its end is shown."""
    shown: list[str] = []
    log = StepLog(lambda _, line: shown.append(line), Secrets([SECRET]))
    log.write("log", (SECRET * MAX_LOGGED)[:MAX_LOGGED])
    assert set(shown[0]) == {"*"}
    assert Secrets([SECRET]).hide_cut("it is correct horse") == "it is ***"
    assert Secrets([SECRET]).hide_cut("it is cor") == "it is cor"
