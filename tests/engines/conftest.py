"""One Connect server for the tests of a module, and a cluster for those that ask."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import deployment, pytest_runtest_makereport  # noqa: F401 - a fixture and a hook
from tests.engines.servers import Cluster, ConnectServer


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Yield a running Connect server with a token."""
    server = ConnectServer(tmp_path_factory.mktemp("connect"), sys.executable)
    try:
        server.up()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a running standalone cluster of two workers."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.stop()
