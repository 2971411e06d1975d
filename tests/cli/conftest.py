"""The command line in this process, with a database for each test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from freshline.cli.main import cli
from freshline.settings import load
from freshline.store.db import opening
from freshline.store.store import Store
from tests.databases import KeptDatabase
from tests.rows import Rows

WORKFLOWS = """
slug: make-clean
steps:
  - id: one
    type: job
    job: { kind: python, entrypoint: "jobs:clean" }
    consumes: [ { assetId: shop.raw } ]
    produces: [ { assetId: shop.clean, freshness: { ttl: 1h }, autoMaterialize: { onUpstreamUpdate: true } } ]
---
slug: make-daily
steps:
  - id: one
    type: job
    job: { kind: python, entrypoint: "jobs:daily" }
    consumes: [ { assetId: shop.clean } ]
    produces: [ { assetId: shop.daily, autoMaterialize: { onUpstreamUpdate: true } } ]
"""

JOBS = """
def clean(ctx):
    print("cleaning", ctx.inputs["shop.raw"].data_version)
    return {"assets": [{"assetId": "shop.clean", "payload": {"rows": 3}}]}


def daily(ctx):
    return {"assets": [{"assetId": "shop.daily", "dataVersion": "always the same"}]}
"""


class Freshline:
    """Calls the command line and checks the exit code."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self._runner = CliRunner()

    def __call__(self, *words: str, code: int = 0, stdin: str | None = None) -> Result:
        """Return the result of a call; check that it exits with `code`."""
        result = self._runner.invoke(cli, list(words), input=stdin, catch_exceptions=True)
        assert result.exit_code == code, f"{words} {result.exit_code}: {result.output} {result.exception!r}"
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """Return the one JSON document on stdout."""
        return json.loads(self(*words, "--json", code=code).stdout)


def write_project(root: Path) -> Path:
    """Write a project with a source shop.raw -> shop.clean -> shop.daily, as Python jobs."""
    for directory in ("workflows", "sources"):
        (root / directory).mkdir(parents=True)
    (root / "freshline.toml").write_text('name = "shop"\n')
    for number, text in enumerate(WORKFLOWS.split("---")):
        (root / "workflows" / f"w{number}.yaml").write_text(text)
    (root / "sources" / "raw.yaml").write_text("assetId: shop.raw\n")
    (root / "jobs.py").write_text(JOBS)
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the directory of a project that is not applied."""
    return write_project(tmp_path / "shop")


@pytest.fixture
def freshline(project: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Freshline:
    """Return the command line, in the project, on the test's database."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", database_url)
    monkeypatch.setenv("FRESHLINE_PROJECT", str(project))
    monkeypatch.setattr(opening, "Database", KeptDatabase)  # each command would make two new sessions
    return Freshline(project)


@pytest.fixture
def rows(database_url: str) -> Iterator[Rows]:
    """Return a writer of stored rows in plain SQL."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
def store(freshline: Freshline) -> Iterator[Store]:
    """Open the store that the commands use."""
    with opening.open_store(load()) as opened:
        yield opened


@pytest.fixture
def applied(freshline: Freshline) -> Callable[..., Any]:
    """Return the command line after `freshline apply`."""
    freshline("apply", "--yes")
    return freshline
