"""Opens the Spark session of a runner: local by default, a cluster or Spark Connect by setting."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from freshline.errors import EngineError
from freshline.spark.connect import Remote
from freshline.spark.java import check_java
from freshline.spark.jvm_cds import archive_options

LOCAL = "local[*]"
NEW_MB_PER_GB = 128  # of a session's memory: it would take a third of it by itself, and a warm one keeps it
# A session that is new on a Connect server knows nothing of these, so they are set on every step's own session.
EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's own default is a form that others read as nanoseconds, or not at all.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Its decimals are bytes of a fixed length, which not everybody reads in newer encodings (ADR 0013).
    "spark.sql.parquet.writeLegacyFormat": "false",
}


def open_session(
    *,
    master: str | None,
    remote: Remote | None,
    scratch: Path,
    java: str | None = None,
    own: Mapping[str, str] | None = None,
) -> SparkSession:
    """A running session. `EngineError`: Java is absent, or Spark cannot be started or reached.

    `java`: more options of the JVM; by default those that use the archive of `freshline.spark.jvm_cds`.
    `own`: settings of the one run that this Spark is for; None: it stays warm for many.
    """
    _quiet()
    options = java if java is not None or remote is not None else archive_options(check_java())
    try:
        if remote is not None:
            return _connected(remote)
        return _classic(master or LOCAL, scratch, options or "", own)
    except ImportError as error:
        hint = "pip install 'freshline[connect]'"
        raise EngineError(f"Spark Connect needs packages that are not installed: {error}", hint=hint) from None
    except Exception as error:  # noqa: BLE001 - whatever stands in the way, it is not the workflow's fault
        where = remote.place if remote else master or "on this machine"
        said = _first_line(error)
        raise EngineError(
            f"Spark cannot be started or reached ({where}): {remote.hide(said) if remote else said}"
        ) from None


def _connected(remote: Remote) -> SparkSession:
    session = remote.open()
    _ = session.version  # the first question: until now nobody has been asked
    return session


def _classic(master: str, scratch: Path, java: str, own: Mapping[str, str] | None) -> SparkSession:
    # Spark would take whatever `python3` is on the PATH, which need not have the packages of this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("freshline")
    for name, value in {**_configuration(master, scratch, java, large=own is not None), **(own or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _configuration(master: str, scratch: Path, java: str, *, large: bool) -> dict[str, str]:
    # A JVM whose heap is full would limp on: some of its threads are gone, and the next run is as likely to fail.
    ending = "-XX:+ExitOnOutOfMemoryError"
    java = f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} -XX:-UsePerfData {ending} {java}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",  # a failed task logs its stack three times; the run's error says it once
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 1))),
        # Listing many files as a Spark job is 40 times slower than in the driver.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # A directory is written once and sealed; v2 would show files of tasks whose job never finishes.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.driver.extraJavaOptions": java,
        # Without PyArrow every Python function would warn that it does not use it.
        "spark.sql.execution.pythonUDF.arrow.enabled": "true" if find_spec("pyarrow") else "false",
        **EVERYWHERE,
    }
    return settings | (_local(java, scratch, large=large) if master.startswith("local") else _cluster())


def _local(java: str, scratch: Path, *, large: bool) -> dict[str, str]:
    """One JVM for everything, on one machine: no network, and little room for new objects if it is small.

    With the serial collector all tasks stand still for one thread: a large write takes 5 to 21 percent longer.
    """
    memory = _memory_gb(large=large)
    collector = "" if large else f" -XX:+UseParallelGC -XX:MaxNewSize={memory * NEW_MB_PER_GB}m"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{memory}g",
        "spark.local.dir": str(scratch),
        # In one process no stage runs twice. To look, for each row, whose attempt it is costs a large write 3 percent.
        "spark.sql.legacy.observeMetricsAggregateAllAttempts": "true",
        "spark.driver.extraJavaOptions": java + collector,
    }


def _cluster() -> dict[str, str]:
    """A runner that is warm and idle gives its executors back: others, and large runs, need them."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "30s",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "60s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "60s",
    }


def _memory_gb(*, large: bool) -> int:
    """A quarter of the machine, between 1 and 4 GB; half of it for a large run."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return int(max(1, total // 2 if large else min(4, total // 4)))


def _quiet() -> None:
    """PySpark logs the whole JVM stack of every mistake in a query; the run's error says it in one sentence."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")  # the error that follows says it


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]
