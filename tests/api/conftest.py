"""The API as a real server on a free port, with a real store under a virtual clock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from freshline.api.server import Server
from tests.store_harness import Lab, laboratory, workflow

HOUR = 3_600_000
WORKFLOWS = (
    workflow("b", "a", freshness={"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}),
    workflow("c", "b", auto={"onUpstreamUpdate": True, "priority": 7}),
)
JSON = {"Content-Type": "application/json"}
NO_PAGE = Path(__file__).parent / "no-page"  # the bundle may have been built, and no test here depends on it


class Api:
    """A client, and the server and the lab behind it."""

    def __init__(self, lab: Lab, server: Server) -> None:
        self.lab = lab
        self.server = server
        self.client = httpx.Client(base_url=f"{server.url}/api/v1", timeout=30, trust_env=False)

    def get(self, path: str, *, expect: int = 200, headers: dict[str, str] | None = None, **params: Any) -> Any:
        """Return the JSON body of a GET request, after checking the status."""
        answer = self.client.get(path, params=params, headers=headers)
        assert answer.status_code == expect, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str, body: Any = None, *, expect: int = 200, **headers: str) -> Any:
        """Return the JSON body of a POST request, after checking the status."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.client.post(path, json={} if body is None else body, headers=sent)
        assert answer.status_code == expect, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def token(self, scope: str) -> dict[str, str]:
        """Create a token with this scope and return its header."""
        secret = f"freshline_{scope}"
        digest = hashlib.sha256(secret.encode()).digest()
        self.lab.store.tokens.create(scope, scope, digest, lifetime_ms=HOUR)
        return {"Authorization": f"Bearer {secret}"}


@contextmanager
def serving(lab: Lab, **options: Any) -> Iterator[Api]:
    """Serve the API of a lab."""
    server = Server(lab.store, **{"host": "127.0.0.1", "port": 0, "page_files": NO_PAGE, **options})
    server.start()
    api = Api(lab, server)
    try:
        yield api
    finally:
        api.client.close()
        server.stop()


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a source a -> b -> c, all fresh, by automatic runs."""
    with laboratory(database_url) as lab:
        lab.apply(*WORKFLOWS)
        lab.report("a", "1")
        lab.work()
        yield lab


@pytest.fixture(scope="module")
def shared(module_database_url: str) -> Iterator[Api]:
    """Yield an API shared by the tests of a module; they must not change anything."""
    with laboratory(module_database_url) as lab:
        lab.apply(*WORKFLOWS)
        lab.report("a", "1")
        lab.work()
        with serving(lab) as api:
            yield api


@pytest.fixture
def api(lab: Lab) -> Iterator[Api]:
    """Yield the API on loopback, without tokens."""
    with serving(lab) as api:
        yield api


@pytest.fixture
def closed(lab: Lab) -> Iterator[Api]:
    """Yield an API where every request needs a token."""
    with serving(lab, auth="token") as api:
        yield api
