"""Alerts that do not arrive, as `freshline dev` prints them: a line when one begins to fail or works again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from freshline.cli.render.text import Text

if TYPE_CHECKING:
    from freshline.store.read.reader import Reader

PAUSE_S = 2.0


class AlertStates:
    """Follows the troubles of alert rules. A message is sent again and again; its error is not repeated."""

    def __init__(self, reader: Reader, *, pause_s: float = PAUSE_S) -> None:
        self._reader = reader
        self._pause_s = pause_s
        self._read_at = -pause_s
        self._troubles: dict[str, str] = {}

    def poll(self) -> list[Text]:
        """Return a line for each rule whose trouble has changed."""
        if time.monotonic() - self._read_at < self._pause_s:
            return []
        self._read_at = time.monotonic()
        found = {one["name"]: one["trouble"] for one in self._reader.alerts.rules() if one["trouble"]}
        before, self._troubles = self._troubles, found
        fails = (_fails(name, trouble) for name, trouble in found.items() if before.get(name) != trouble)
        return [*fails, *(_works(name) for name in before if name not in found)]


def _fails(name: str, trouble: str) -> Text:
    return Text((f"alert {name} cannot be sent: {trouble}; `freshline alert show {name}` says more", "red"))


def _works(name: str) -> Text:
    return Text((f"alert {name} is sent again", "green"))
