"""Opens the Spark session of a runner: local by default, a cluster or Spark Connect by setting."""

from __future__ import annotations

import logging
import os
import warnings
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from freshline.errors import EngineError
from freshline.spark.archive import archive_options
from freshline.spark.java import check_java

LOCAL = "local[*]"
# A session that is new on a Connect server knows nothing of these, so they are set on every step's own session.
# The old way to write timestamps, INT96, is one that other engines read with a warning or not at all.
EVERYWHERE = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def open_session(*, master: str | None, remote: str | None, scratch: Path, java: str | None = None) -> SparkSession:
    """A running session. `EngineError`: Java is absent, or Spark cannot be started or reached.

    `java`: more options of the JVM; by default those that use the archive of `freshline.spark.archive`.
    """
    _quiet()
    options = java if java is not None or remote is not None else archive_options(check_java())
    try:
        if remote is not None:
            return SparkSession.builder.remote(remote).getOrCreate()
        return _classic(master or LOCAL, scratch, options or "")
    except ImportError as error:
        hint = "pip install 'pyspark[connect]'"
        raise EngineError(f"Spark Connect needs packages that are not installed: {error}", hint=hint) from None
    except Exception as error:  # noqa: BLE001 - whatever stands in the way, it is not the workflow's fault
        where = remote or master or "on this machine"
        raise EngineError(
            f"Spark cannot be started or reached ({_without_token(where)}): {_first_line(error)}"
        ) from None


def _classic(master: str, scratch: Path, java: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("freshline")
    for name, value in _configuration(master, scratch, java).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _configuration(master: str, scratch: Path, java: str) -> dict[str, str]:
    java = f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} -XX:-UsePerfData {java}"
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
    return {**settings, **_local(java, scratch)} if master.startswith("local") else settings


def _local(java: str, scratch: Path) -> dict[str, str]:
    """One JVM for everything, on one machine: no network, a small collector, a quick start."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_memory_gb()}g",
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": f"{java} -XX:+UseSerialGC",
    }


def _memory_gb() -> int:
    """A quarter of the machine, between 1 and 4 GB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(max(1, min(4, total // 4 // 2**30)))


def _quiet() -> None:
    """PySpark logs the whole JVM stack of every mistake in a query; the run's error says it in one sentence."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]


def _without_token(url: str) -> str:
    return url.partition(";")[0]
