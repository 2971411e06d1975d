"""Copies of databases that are expensive to make."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

COPY = "freshline_copy"


@pytest.fixture
def copy(postgres: str) -> Iterator[Callable[[str], str]]:
    """Return a function that copies a database without connections, so that expensive data is made only once."""
    with psycopg.connect(postgres, autocommit=True) as connection:

        def make(url: str) -> str:
            original = conninfo_to_dict(url)["dbname"]
            connection.execute(f"CREATE DATABASE {COPY} TEMPLATE {original} STRATEGY FILE_COPY")
            return make_conninfo(url, dbname=COPY)

        yield make
        connection.execute(f"DROP DATABASE IF EXISTS {COPY} WITH (FORCE)")
