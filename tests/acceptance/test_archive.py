"""A worker from a bare installation gets the archive with which Spark starts faster, without anybody asking for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from freshline.spark.java import check_java
from freshline.spark.jvm_cds import archive_path
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_spark import spark_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.full]

FLOW = """
slug: small
steps:
  - id: work
    job: {kind: spark.sql, sql: "SELECT 1 AS a"}
    produces: [{assetId: small}]
"""


@pytest.mark.timeout(600)
def test_a_worker_without_an_archive_makes_it(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made even if the worker is killed meanwhile, and the next worker's Spark starts with it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    deployment.environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    (deployment.root / "workflows" / "small.yaml").write_text(FLOW)
    deployment.apply()
    path = archive_path(check_java())
    worker = deployment.start("worker")
    wait_until(lambda: list(path.parent.glob(f"{path.stem}-*")), 240, what="it is being made")
    deployment.kill(worker)
    wait_until(path.exists, 300, every=0.2, what="the archive")
    wait_until(lambda: set(path.parent.iterdir()) == {path, path.with_suffix(".lock")}, 30, what="nothing else is left")
    worker = deployment.start("worker")
    assert f"-XX:SharedArchiveFile={path}" in wait_until(lambda: options(worker.pid), 60, what="the options of the JVM")


def options(worker: int) -> str:
    """The arguments of the JVM of a worker, once it has one."""
    with suppress(LookupError, OSError):
        arguments = Path(f"/proc/{spark_of(worker)[1]}/cmdline").read_text().replace("\0", " ")
        return arguments if "SparkSubmit" in arguments else ""
    return ""
