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
from freshline.model.deliveries import Delivery
from freshline.model.run import ClaimedRun, Location, StagedOutput
from freshline.storage import layout
from freshline.storage.local import LocalStorage
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from tests.chaos import landing
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
        for directory in ("sources", landing.DROP):
            (self._root / directory).mkdir()
        (self._root / "sources" / "landing.yaml").write_text(landing.SOURCE_YAML)
        (self._root / "workflows" / "loaded.yaml").write_text(landing.TABLE_YAML)
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
            rows = self.rows(table)
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
            rows = self.rows(table)
            if published and rows not in published:
                yield f"the table {table} has the rows {rows}, which the database did not publish"

    def rows(self, table: str) -> list[int] | str:
        """Return the rows of a table, as another system reads them, or why it cannot."""
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
        try:
            output = self._loaded(run) if run.slug == landing.TABLE else self._last_report(run)
            self._insisting.call(lambda store: store.runs.publish(run, [output]))
        except (OSError, FreshlineError, pl.exceptions.PolarsError):
            return

    def _last_report(self, run: ClaimedRun) -> StagedOutput:
        version = run.inputs[TABLES[run.slug]].data_version
        location = self._written(run, [_number(version)])
        return StagedOutput(run.slug, "work", version, location=location, schema=SCHEMA, rows=1)

    def _loaded(self, run: ClaimedRun) -> StagedOutput:
        """Append the rows of the deliveries that are new to the table."""

        def fetch(first: int, last: int) -> list[Delivery]:
            return self._insisting.call(lambda store: store.runs.deliveries(landing.SOURCE, "", first, last))

        new, head = landing.new_rows(run, fetch), run.inputs.get(run.slug)
        appended = head is not None and not new.whole
        return StagedOutput(
            run.slug,
            "work",
            data_version=None,
            location=self._written(run, new.rows),
            schema=SCHEMA,
            rows=len(new.rows) + (head.rows or 0 if head and appended else 0),
            based_on=head.sequence if head else 0,
            appended=appended,
        )

    def _written(self, run: ClaimedRun, rows: list[int]) -> Location:
        name = layout.staging_directory(run.slug, run.id, run.attempt, 1)
        (self._warehouse / name).mkdir(parents=True)
        frame = pl.DataFrame({"x": rows}, schema={"x": pl.Int64})
        frame.write_parquet(self._warehouse / name / "part-0.parquet")
        return layout.seal(self._storage, name)


def _number(version: str) -> int:
    return int(version.removeprefix("v"))
