"""The example of `make demo`: it contains what it demonstrates, and it runs to its end."""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from freshline.definitions.loading.project import Project, load_project
from freshline.settings import load
from freshline.spark.session import open_session
from freshline.store.db.opening import open_store
from tests.spark.test_readers import read_by_duckdb, read_by_polars, rows

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flights"
Parents = dict[str, set[str]]
TABLES = 10  # of the eleven assets and the total; two keep their data outside the warehouse


@pytest.fixture(scope="module")
def project() -> Project:
    """Load the example as `validate --strict` does."""
    return load_project(EXAMPLE, strict=True)


@pytest.fixture(scope="module")
def parents(project: Project) -> Parents:
    """Return the inputs of each produced asset."""
    return {
        produced.asset_id: {consumed.asset_id for consumed in step.consumes}
        for workflow in project.workflows
        for step in workflow.definition.steps
        for produced in step.produces
    }


@pytest.fixture(scope="module")
def deliveries() -> ModuleType:
    """Import the module that simulates the external systems."""
    spec = importlib.util.spec_from_file_location("flights_deliveries", EXAMPLE / "deliveries.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Played:
    """The demo after its end: its output, and the files that it left."""

    project: Path
    said: str
    leftovers: list[str]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Run the demo once for all tests of it."""
    root = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(EXAMPLE / "demo.py"), "--dir", str(root / "flights"), "--deadline", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Played(root / "flights", done.stdout, _leftovers(root))


def test_the_project_is_valid_without_a_warning(project: Project) -> None:
    """Whoever starts from the example starts from something that `validate --strict` has nothing to say about."""
    assert project.warnings == ()


def test_it_has_eight_assets_over_four_levels(parents: Parents) -> None:
    """The graph is deep and wide enough to show a wave."""

    def level(asset: str) -> int:
        return 1 + max(map(level, parents[asset])) if asset in parents else 0

    assert len(parents) >= 8
    assert max(map(level, parents)) >= 4


def test_it_has_a_diamond(parents: Parents) -> None:
    """Some asset has two inputs that stem from one produced asset, and neither of which stems from the other."""

    def above(asset: str) -> set[str]:
        return {asset}.union(*map(above, parents.get(asset, ())))

    def meet(one: str, other: str) -> bool:
        apart = one not in above(other) and other not in above(one)
        return apart and bool(above(one) & above(other) & parents.keys())

    assert any(meet(one, other) for inputs in parents.values() for one in inputs for other in inputs)


def test_it_shows_every_kind_of_job_and_policy(project: Project) -> None:
    """SQL, Python on Spark, plain Python, a TTL, priorities, checks, and a failure that is retried as a new run."""
    steps = [step for workflow in project.workflows for step in workflow.definition.steps]
    assert {step.job.kind for step in steps} == {"spark.sql", "spark.python", "python"}
    outputs = [output for step in steps for output in step.produces]
    assert any(output.freshness and output.freshness.ttl_ms for output in outputs)
    assert any(output.checks for output in outputs)
    assert len({workflow.policy.priority for workflow in project.workflows}) > 2
    (fragile,) = [one for one in project.workflows if one.definition.backoff]
    assert fragile.policy.backoff.base_ms == 3000
    assert [step.retry.max_attempts for step in fragile.definition.steps if step.retry] == [1]


def test_a_delivery_is_never_written_again(deliveries: ModuleType, tmp_path: Path) -> None:
    """A version that was reported stays as it was, whatever arrives later: runs are pinned to it."""
    outside = deliveries.Deliveries(tmp_path)
    first, second = date(2013, 2, 8), date(2013, 2, 9)
    flights, weather = outside.arrive([first])
    before = _content(flights.path)
    more, _ = outside.arrive([second])
    outside.arrive_again(first)
    assert _content(flights.path) == before
    assert sorted(_content(more.path)) == ["2013-02-08.csv", "2013-02-09.csv"]
    assert outside.days() == [first, second]
    assert (weather.asset, weather.version) == ("weather.raw", "delivery-1")


def test_a_day_that_arrives_again_has_the_same_flights(deliveries: ModuleType, tmp_path: Path) -> None:
    """The update that changes nothing does change the file: the cutoff is one by content, not by bytes."""
    outside = deliveries.Deliveries(tmp_path)
    day = date(2013, 2, 9)
    once, again = outside.arrive([day])[0], outside.arrive_again(day)
    before, after = _rows(once.path / f"{day}.csv"), _rows(again.path / f"{day}.csv")
    assert len(after) > len(before) > 500
    assert set(after) == set(before)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(900)
def test_the_demo_plays_through(played: Played) -> None:
    """It ends by itself with everything fresh, one failure retried by itself and one wave cut off early."""
    said = played.said
    assert re.search(r"failed +carriers-scorecard .*rating service", said)
    assert re.search(r"run +carriers-scorecard +tried again after a failure", said)
    assert re.search(r"same +flights\.clean +came out identical", said)
    assert said.count("all 11 assets are fresh") == 6
    assert re.search(r"\d+ runs for 6 updates, 1 failed, 1 came by itself", said)
    assert re.search(r"[1-9]\d* runs avoided: 2 outputs came out identical", said)
    assert re.search(r"carriers\.scorecard +fresh", said)
    assert "6 runs: its day, the windows that hold the day, the total" in said
    assert re.search(r"days\.late +finished +3 of 3", said)
    added = said.partition("Partitions: days from hours")[2].partition("\napplied")[0]
    would_run = {
        line.partition(":")[0] for line in added.splitlines() if "input-missing" in line or "would run" in line
    }
    assert would_run == {"days-late", "week-late", "total-late"}, "a chapter in SQL is no new code of other workflows"
    assert played.leftovers == []


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(900)
def test_polars_and_duckdb_read_what_spark_reads(played: Played, tmp_path: Path) -> None:
    """Every table of the demo, at its first and at its last version, has the same rows for all three.

    See docs/semantics.md#R9.7.
    """
    versions = {asset: found for asset, found in _versions(played.project).items() if found}
    assert len(versions) == TABLES
    warehouse = played.project / ".freshline" / "warehouse"
    session = open_session(master="local[2]", remote=None, scratch=tmp_path)
    try:
        for asset, found in versions.items():
            first, last = min(found), max(found)
            assert first < last == DeltaTable(str(warehouse / asset)).version(), f"the log of {asset} has all versions"
            expected = {number: _read_by_spark(session, warehouse, found[number]) for number in (first, last)}
            assert expected[first] != expected[last], asset
            for number, rows_of_spark in expected.items():
                assert read_by_polars(warehouse / asset, number) == rows_of_spark, f"Polars, {asset} version {number}"
                assert read_by_duckdb(warehouse / asset, number) == rows_of_spark, f"DuckDB, {asset} version {number}"
    finally:
        session.stop()


def test_it_does_not_mix_its_project_with_one_that_is_there(tmp_path: Path) -> None:
    """A directory with something in it is refused with a sentence, and left as it is."""
    (tmp_path / "mine.txt").write_text("mine")
    command = [sys.executable, str(EXAMPLE / "demo.py"), "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"{tmp_path} is not empty" in done.stdout.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def _versions(project: Path) -> dict[str, dict[int, Any]]:
    """Return the stored versions of each table by asset and version number; assets without tables have none."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FRESHLINE_")}
    with open_store(load(environ, project=project), name="test") as store:
        assets = store.reader.status()["assets"]
        # The versions of a table with partitions are spread over these; tests/delta reads such tables.
        made = [one["assetId"] for one in assets if one["state"] != "source" and one["partitions"] is None]
        return {
            asset: {
                one["tableVersion"]: one
                for one in store.reader.snapshots(asset, limit=100)
                if one["tableVersion"] is not None
            }
            for asset in made
        }


def _read_by_spark(session: SparkSession, warehouse: Path, snapshot: dict[str, Any]) -> list[str]:
    """Read the table from the directories and schema in the database, without the Delta log."""
    paths = [str(warehouse / path) for path in snapshot["location"]["paths"]]
    table = session.read.schema(StructType.fromJson(snapshot["schema"])).parquet(*paths)
    return rows([tuple(row.values()) for row in table.toArrow().to_pylist()])


def _content(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def _rows(file: Path) -> list[tuple[str, ...]]:
    with file.open(newline="", encoding="utf-8") as rows:
        return [tuple(row) for row in csv.reader(rows)]


def _leftovers(directory: Path) -> list[str]:
    """Return the commands of processes that still refer to the directory."""
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [command.decode(errors="replace") for command in commands if str(directory).encode() in command]
