"""Databases that a whole module shares."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

NAME = "freshline_module"


@pytest.fixture(scope="module")
def module_database_url(postgres: str, template_database: str) -> Iterator[str]:
    """The URL of a migrated database of this module, for tests that only look at it."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {NAME} TEMPLATE {template_database}")
    yield make_conninfo(postgres, dbname=NAME)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {NAME} WITH (FORCE)")
