"""The log of a background process equals the one on a terminal, without colours, and is cheaper to write."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from freshline.cli.logging_setup import Plain
from freshline.lazy_logger import LazyLogger, configure_on_first_use
from freshline.model.enums import Outcome

EVENTS: list[dict[str, Any]] = [
    {"event": "decision", "workflow": "make-clean", "outcome": Outcome.RUN, "run": None, "count": 3},
    {"event": "x" * 40, "error": "it's\nover", "ms": 1.5},
    {"event": "quiet"},
    {"event": "failed", "exception": "Traceback: all of it"},
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event["event"][:8])
def test_a_plain_line_is_that_of_the_console(event: dict[str, Any]) -> None:
    """Whatever is said, and with a traceback too."""
    console = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    whole = {"timestamp": "2026-01-05T09:00:00Z", "level": "info", **event}
    assert Plain(console)(None, "info", dict(whole)) == console(None, "info", dict(whole))


def test_logging_is_configured_before_the_first_word() -> None:
    """And once: a command that says nothing pays nothing for it."""
    done: list[str] = []
    configure_on_first_use(lambda: done.append("configured"))
    logger = LazyLogger("freshline.tests")
    assert done == []
    with structlog.testing.capture_logs() as said:
        logger.warning("database_away", error="gone")
        logger.warning("database_back")
    assert done == ["configured"]
    assert [one["event"] for one in said] == ["database_away", "database_back"]
