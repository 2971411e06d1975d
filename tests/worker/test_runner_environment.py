"""Which variables of the worker reach its runners, and when a runner may be used again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.settings import Settings
from freshline.worker.runner_environment import JobEnvironment
from freshline.worker.runner_pool import RunnerPool
from tests.store_harness import laboratory, workflow
from tests.worker.steps import Bench, copy_of

WORKER = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "JAVA_HOME": "/java",
    "SPARK_CONF_DIR": "/conf",
    "SPARK_REMOTE": "sc://x/;token=secret",
    "FRESHLINE_DATABASE_URL": "postgresql://u:secret@h/d",
    "FRESHLINE_WAREHOUSE": "/warehouse",
    "ASSET_MATERIALIZER_BASE_BACKOFF_MS": "1",
    "PGPASSWORD": "secret",
    "SHOP_HOST": "h",
    "SHOP_TOKEN": "secret of a workflow",
    "AWS_SECRET_ACCESS_KEY": "key",
    "OTHER": "ordinary",
}
JOBS = """
import os
KEPT = []
def hold(ctx):
    KEPT.append(os.environ["API_KEY"])
    return {"assets": [{"assetId": "out"}]}
def show(ctx): return {"assets": [{"assetId": "out", "payload": {"kept": KEPT, "environ": dict(os.environ)}}]}
"""


def test_an_ordinary_variable_passes_and_a_setting_or_a_secret_does_not() -> None:
    """Without a list, all that is neither Freshline's nor a secret of any workflow."""
    found = JobEnvironment(secrets=frozenset({"SHOP_TOKEN"})).of(WORKER)
    assert set(WORKER) - set(found) == {
        "SPARK_REMOTE",
        "FRESHLINE_DATABASE_URL",
        "ASSET_MATERIALIZER_BASE_BACKOFF_MS",
        "PGPASSWORD",
        "SHOP_TOKEN",
    }


def test_an_allow_list_adds_to_what_runners_need() -> None:
    """Names, and beginnings of names; a secret stays hidden even if it matches."""
    needed = {"PATH", "HOME", "LC_ALL", "JAVA_HOME", "SPARK_CONF_DIR", "FRESHLINE_WAREHOUSE"}
    assert set(JobEnvironment(()).of(WORKER)) == needed
    assert set(JobEnvironment(("OTHER",)).of(WORKER)) == needed | {"OTHER"}
    listed = JobEnvironment(("SHOP_*", "FRESHLINE_*"), secrets=frozenset({"SHOP_TOKEN"}))
    assert set(listed.of(WORKER)) == needed | {"SHOP_HOST"}


@pytest.mark.parametrize(("warehouse", "passes"), [("s3a://bucket/x", True), ("gs://bucket/x", False), ("/dir", False)])
def test_an_allow_list_keeps_the_keys_of_the_warehouse(warehouse: str, passes: bool) -> None:
    """Spark writes tables there; the keys of another store are not needed."""
    assert ("AWS_SECRET_ACCESS_KEY" in JobEnvironment((), warehouse=warehouse).of(WORKER)) is passes


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunnerPool]:
    """Yield the runners of a slot, on a project whose job keeps its secret."""
    (tmp_path / "jobs.py").write_text(JOBS)
    pool = RunnerPool(Settings(project=tmp_path))
    yield pool
    pool.close()


def _run(pool: RunnerPool, tmp_path: Path, job: str, *secrets: str) -> tuple[int | None, dict[str, object]]:
    runner = pool.runner(spark=False, code=copy_of(tmp_path), secrets=secrets)
    bench = Bench(tmp_path, runner)
    result = bench.run({"kind": "python", "entrypoint": f"jobs:{job}"}, secrets=list(secrets))
    return runner.pid, dict(result.outputs[0].payload or {})


def test_a_runner_that_had_a_secret_is_not_used_without_it(
    pool: RunnerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of the same secrets or more gets the warm runner; any other one gets a new process."""
    monkeypatch.setenv("API_KEY", "k3y-of-api")
    monkeypatch.setenv("MORE", "more-of-it")
    first, _ = _run(pool, tmp_path, "hold", "API_KEY")
    second, found = _run(pool, tmp_path, "show", "API_KEY", "MORE")
    assert (first, found["kept"]) == (second, ["k3y-of-api"])
    third, found = _run(pool, tmp_path, "show", "API_KEY")
    assert third != second
    pool.environment = JobEnvironment(secrets=frozenset({"API_KEY", "MORE"}))
    fourth, found = _run(pool, tmp_path, "show")
    assert fourth != third
    assert "k3y-of-api" not in str(found)
    assert "more-of-it" not in str(found)
    assert _run(pool, tmp_path, "show")[0] == fourth


def test_the_store_knows_all_names_of_secrets(database_url: str) -> None:
    """Those of every workflow, also of one that was removed: its runner may still be warm."""
    with laboratory(database_url) as lab:
        assert lab.store.runs.secret_names() == []
        lab.apply(workflow("b", "a", secrets=["B_KEY", "KEY"]), workflow("c", "b", secrets=["KEY"]))
        assert lab.store.runs.secret_names() == ["B_KEY", "KEY"]
