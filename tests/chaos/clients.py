"""Clients that report changes and request runs, and know which of their calls a restored database must have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from freshline.errors import FreshlineError
from tests.chaos.callers import Callers
from tests.chaos.chaos_workload import SOURCES
from tests.chaos.insisting import Insisting
from tests.chaos.repeating import Repeating

log = structlog.get_logger("chaos")
PAUSE_S = (0.0, 0.5)


@dataclass(frozen=True, slots=True)
class Mark:
    """How many calls were answered at one time: a backup that begins later contains them."""

    reports: int
    requests: int


class Clients:
    """Report changes and request runs until stopped; every answered call must have taken effect once.

    Every second call goes over HTTP. `gate` is held during each call.
    """

    def __init__(self, url: str, root: Path, callers: Callers, seed: int, slugs: Callable[[], list[str]]) -> None:
        self._callers = callers
        self._insisting = Insisting(url, root, "chaos")
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._slugs = slugs
        self._number = 0
        self._repeating = Repeating("clients", self._act, self._rng, PAUSE_S)
        self.gate = self._repeating.gate
        self.reported: list[tuple[str, str, str]] = []  # source, key, version
        self.requested: list[str] = []
        self.repeated = 0

    def start(self) -> None:
        self._insisting.open()
        self._repeating.start()

    def stop(self) -> None:
        """Stop making changes, after a final report of every source; calls are retried until they are answered."""
        self._repeating.stop()
        for source in SOURCES:
            self._new_report(source)

    def close(self) -> None:
        self._repeating.end()
        self._insisting.close()

    def mark(self) -> Mark:
        """Return what is answered by now."""
        return Mark(len(self.reported), len(self.requested))

    def sources(self) -> dict[str, str]:
        """Return the last reported version of every source."""
        return {source: version for source, _, version in self.reported}

    def after_restore(self, mark: Mark) -> None:
        """Report again what a restored database may lack, in order. Requests after the mark are lost by definition.

        The caller holds `gate`.
        """
        for source, key, version in self.reported[mark.reports :]:
            self._report(source, key, version)
            self.repeated += 1
        del self.requested[mark.requests :]

    def _act(self) -> None:
        if self._rng.random() < 0.9:
            self._new_report(self._rng.choice(SOURCES))
        else:
            self._request(self._rng.choice(self._slugs()))

    def _new_report(self, source: str) -> None:
        self._number += 1
        one = (source, f"{source}-{self._number}", f"v{self._number}")
        self._report(*one)
        self.reported.append(one)

    def _report(self, source: str, key: str, version: str) -> None:
        if self._over_http():
            self._callers.report(source, version, key)
        else:
            self._insisting.call(lambda store: store.operations.report(source, version=version, key=key))

    def _request(self, slug: str) -> None:
        self._number += 1
        key = f"{slug}-{self._number}"
        if self._over_http():
            if self._callers.run(slug, key):
                self.requested.append(key)
            return
        try:
            self._insisting.call(lambda store: store.operations.request_run(slug, key=key))
        except FreshlineError as error:
            log.debug("refused", slug=slug, error=str(error))  # an input was not produced yet, or it was removed
        else:
            self.requested.append(key)

    def _over_http(self) -> bool:
        return self._rng.random() < 0.5
