"""The states of watchers, as `freshline dev` prints them: a line when one begins to fail, looks rarely, or works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from freshline.cli.render.format import moment
from freshline.cli.render.text import Text

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import ReadOnlyBackend
    from freshline.model.documents.watch import Watch

PAUSE_S = 2.0  # between two readings: a project may have many watchers
MOST_WATCHES = 1_000

State = Literal["works", "fails", "looks rarely"]


class WatchStates:
    """Follows the states of watchers. The errors of a watcher that goes on failing are not repeated."""

    def __init__(self, reader: ReadOnlyBackend, *, pause_s: float = PAUSE_S) -> None:
        self._reader = reader
        self._pause_s = pause_s
        self._read_at = -pause_s
        self._states: dict[str, State] = {}

    def poll(self) -> list[Text]:
        """Return a line for each watcher whose state has changed."""
        if time.monotonic() - self._read_at < self._pause_s:
            return []
        self._read_at = time.monotonic()
        found = {one["assetId"]: one for one in self._reader.watches(MOST_WATCHES)}
        before, self._states = self._states, {asset_id: _state(one) for asset_id, one in found.items()}
        changed = (one for asset_id, one in found.items() if self._states[asset_id] != before.get(asset_id, "works"))
        return [_line(one) for one in changed]


def _state(watch: Watch) -> State:
    if not watch["failures"]:
        return "works"
    return "looks rarely" if watch["breakerOpenedAt"] else "fails"


def _line(watch: Watch) -> Text:
    name, more = f"the watcher of {watch['assetId']}", f"; `freshline watch show {watch['assetId']}` says more"
    match _state(watch):
        case "works":
            return Text((moment(watch["lookedAt"]), "bold"), "  ", (f"{name} works again", "green"))
        case "fails":
            text = f"{name} fails: {watch['lookError']}{more}"
            return Text((moment(watch["failingSince"]), "bold"), "  ", (text, "red"))
        case _:
            text = f"{name} failed {watch['failures']} times in a row, and looks rarely now: {watch['lookError']}{more}"
            return Text((moment(watch["breakerOpenedAt"]), "bold"), "  ", (text, "red"))
