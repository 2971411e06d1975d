"""One real Spark session for all tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from freshline.spark.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a local session, opened as runners open theirs."""
    session = open_session(master="local[2]", remote=None, scratch=tmp_path_factory.mktemp("scratch"))
    yield session
    session.stop()
