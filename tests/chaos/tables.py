"""Tables in the warehouse of the chaos test. A worker without Spark writes them, the materializers their Delta logs.

Spark takes longer to start than processes live here. So the tables belong to a second project, whose runs only this
worker claims. It writes Parquet files, and is lost now and then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import psycopg
from deltalake.exceptions import DeltaError

from freshline.definitions.loading.project import load_project
from freshline.errors import FreshlineError
from freshline.model.run import ClaimedRun, StagedOutput
from freshline.storage import layout
from freshline.storage.local import LocalStorage
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from tests.chaos.insisting import Insisting
from tests.chaos.repeating import Repeating

PROJECT = "ledgers"
TABLES = {"ledger": "orders", "pricelist": "prices"}  # and the source of each
SCHEMA = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
PAUSE_S = (0.2, 2.0)
LOST = 0.1  # of the runs lose their worker
DEFINITION = (
    "slug: {table}\nsteps:\n  - id: work\n    job: {{kind: spark.sql, sql: 'SELECT * FROM {source}'}}\n"
    "    consumes: [{{assetId: {source}}}]\n"
    "    produces: [{{assetId: {table}, autoMaterialize: {{onUpstreamUpdate: true}}}}]\n"
)


class Tables:
    """Executes the runs of the second project. `gate` is held during each."""

    def __init__(self, url: str, root: Path, warehouse: Path, seed: int) -> None:
        self._url = url
        self._root = root
        self._warehouse = warehouse
        self._insisting = Insisting(url, root, "chaos-tables")
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._who = Claimant(new_id(), PROJECT, "none", spark=True)
        self._repeating = Repeating("tables", self._work, self._rng, PAUSE_S)
        self.gate = self._repeating.gate

    def start(self) -> None:
        """Apply the project, and begin."""
        self._insisting.open()
        (self._root / "workflows").mkdir(parents=True)
        (self._root / "freshline.toml").write_text(f'name = "{PROJECT}"\n')
        for table, source in TABLES.items():
            path = self._root / "workflows" / f"{table}.yaml"
            path.write_text(DEFINITION.format(table=table, source=source))
        self._insisting.call(lambda store: store.apply.commit(load_project(self._root)))
        self._storage = LocalStorage(self._warehouse)
        layout.check_warehouse(self._storage, self._insisting.call(lambda store: store.warehouse_id))
        self._repeating.start()

    def close(self) -> None:
        """Stop. It works until then, because the tables must reach their last version."""
        self._repeating.join()
        self._insisting.close()

    def wrong(self, sources: Mapping[str, str]) -> Iterator[str]:
        """Yield tables that do not have the rows of the last report, for every reader."""
        if self._repeating.failure is not None:
            yield f"the worker of the tables failed: {self._repeating.failure!r}"
        for table, source in TABLES.items():
            rows = self._rows(table)
            if rows != [_number(sources[source])]:
                yield f"the table {table} has the rows {rows}, and its source is {sources[source]}"

    def unreadable(self) -> Iterator[str]:
        """Yield tables whose Delta log does not show a published version."""
        with psycopg.connect(self._url) as connection:
            found = connection.execute(
                "SELECT asset_id, data_version FROM snapshots WHERE table_version IS NOT NULL"
            ).fetchall()
        for table in TABLES:
            published = [[_number(version)] for asset, version in found if asset == table]
            rows = self._rows(table)
            if published and rows not in published:
                yield f"the table {table} has the rows {rows}, which the database did not publish"

    def _rows(self, table: str) -> list[int] | str:
        try:
            return sorted(pl.read_delta(str(self._warehouse / table))["x"].to_list())
        except (DeltaError, OSError, pl.exceptions.PolarsError) as error:
            return str(error)[:300]

    def _work(self) -> None:
        run = self._insisting.call(lambda store: store.runs.claim(self._who))
        if run is not None and self._rng.random() > LOST:
            self._execute(run)

    def _execute(self, run: ClaimedRun) -> None:
        """Write and publish a table. If its lease is lost or the disk is full, another attempt follows."""
        version = run.inputs[TABLES[run.slug]].data_version
        name = layout.staging_directory(run.slug, run.id, run.attempt, 1)
        try:
            (self._warehouse / name).mkdir(parents=True)
            rows = pl.DataFrame({"x": [_number(version)]}, schema={"x": pl.Int64})
            rows.write_parquet(self._warehouse / name / "part-0.parquet")
            location = layout.seal(self._storage, name)
        except (OSError, FreshlineError, pl.exceptions.PolarsError):
            return
        output = StagedOutput(run.slug, "work", version, location=location, schema=SCHEMA, rows=1)
        try:
            self._insisting.call(lambda store: store.runs.publish(run, [output]))
        except FreshlineError:
            return


def _number(version: str) -> int:
    return int(version.removeprefix("v"))
