"""HTTP clients that use Freshline while its processes are killed, and retry until they get an answer.

An API process may be killed, stopped, or without its database; then it refuses the connection, does not answer, or
answers 503. Any other unexpected answer is a defect, and is recorded.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.waiting import wait_until

TIMEOUT_S = 4.0
PATIENCE_S = 180
LATER = {408, 503}  # the answer itself asks for a retry
REFUSED = {404, 409, 422}  # it was removed, is removed now, or an input was not produced yet
RENAMED = "/workflows/flaky/auto-materialize"  # is not there at all times
PAGES = (
    "/assets?limit=100",
    "/assets/graph",
    "/assets/report/why",
    "/assets/weekly/history",
    "/workflows",
    RENAMED,
    "/runs?limit=50",
    "/events?limit=100",
    "/decisions?limit=50",
)


class Callers:
    """A client that makes changes, and one that only reads, continuously."""

    def __init__(self, ports: Sequence[int], seed: int) -> None:
        self._ports = ports
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="callers", daemon=True)
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def report(self, asset: str, version: str, key: str) -> None:
        """Retry a report until it is answered."""
        status = self._insist(f"/assets/{asset}/produced", {"dataVersion": version}, key)
        if status in REFUSED:
            self.wrong.append(f"the API refused the report {key} of {asset} with {status}")

    def run(self, slug: str, key: str) -> bool:
        """Retry a request for a run until it is answered; return False if it was refused."""
        return self._insist(f"/workflows/{slug}/run", {}, key) not in REFUSED

    def _insist(self, path: str, body: dict[str, Any], key: str) -> int:
        """Retry with the same key until there is an answer, and return its status. A lost answer doubles nothing."""
        status: int | None = None

        def answered() -> bool:
            nonlocal status
            status = self._call("POST", path, body, key)
            return status is not None

        wait_until(answered, PATIENCE_S, every=0.2, what=f"an answer to {path}")
        return status or 0

    def _look(self) -> None:
        while not self._stopping.wait(self._rng.uniform(0, 0.05)):
            self._call("GET", self._rng.choice(PAGES))

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> int | None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key} if key else {}
        connection = http.client.HTTPConnection("127.0.0.1", self._rng.choice(self._ports), timeout=TIMEOUT_S)
        try:
            connection.request(method, f"/api/v1{path}", json.dumps(body) if key else None, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.answers["none"] += 1
            return None
        finally:
            connection.close()
        self.answers[f"{answer.status}"] += 1
        if answer.status in LATER:
            return None
        expected = {200, 202, *REFUSED} if key else {200, 404} if path == RENAMED else {200}
        if answer.status not in expected:
            self.wrong.append(f"the API answered {method} {path} with {answer.status}: {text[:300]!r}")
        return answer.status
