"""Loggers that are made when something is said: structlog imports more than a command needs that only looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_setups: list[Callable[[], None]] = []


class Journal:
    """Says what structlog's logger of this name says."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Any:
        import structlog  # noqa: PLC0415 - that is what this is for

        while _setups:
            _setups.pop()()
        return getattr(structlog.get_logger(self._name), level)


def configure_later(setup: Callable[[], None]) -> None:
    """Have logging configured before the first word, if there is one."""
    _setups[:] = [setup]
