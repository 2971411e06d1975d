"""Loggers that import structlog when the first line is logged.

Importing structlog takes 45 ms after everything that `freshline status` imports, and most commands log nothing.
Modules that only services and workers import use structlog directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_setups: list[Callable[[], None]] = []


class LazyLogger:
    """A structlog logger that is created on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Any:
        import structlog  # noqa: PLC0415 - the purpose of this module

        while _setups:
            _setups.pop()()
        return getattr(structlog.get_logger(self._name), level)


def configure_on_first_use(setup: Callable[[], None]) -> None:
    """Call `setup` before the first line is logged."""
    _setups[:] = [setup]
