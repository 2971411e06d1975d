"""Opens the first Spark session of a runner: local by default, on a cluster or a Connect server by setting."""

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
NEW_MB_PER_GB = 128  # young generation per GB of heap: Java would take a third, which a warm session keeps
# Set on the session of every step: a new session on a Connect server does not have them.
SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # Other readers take Spark's default for nanoseconds, or cannot read it.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Legacy decimals are fixed-length bytes, which some readers cannot read in newer encodings (ADR 0013).
    "spark.sql.parquet.writeLegacyFormat": "false",
}


def open_session(
    *,
    master: str | None,
    remote: Remote | None,
    scratch: Path,
    java: str | None = None,
    own_conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a running session. Raise `EngineError` if Java is absent, or Spark cannot be started or reached.

    `java`: further JVM options; by default those that use the class archive (`freshline.spark.jvm_cds`).
    `own_conf`: settings of the one large run that this Spark is for; None: it serves many runs.
    """
    _quiet()
    options = java if java is not None or remote is not None else archive_options(check_java())
    try:
        if remote is not None:
            return _connected(remote)
        return _classic(master or LOCAL, scratch, options or "", own_conf)
    except ImportError as error:
        hint = "pip install 'freshline[connect]'"
        raise EngineError(f"Spark Connect needs packages that are not installed: {error}", hint=hint) from None
    except Exception as error:  # noqa: BLE001 - never the workflow's failure
        where = remote.place if remote else master or "on this machine"
        reason = _first_line(error)
        raise EngineError(
            f"Spark cannot be started or reached ({where}): {remote.hide(reason) if remote else reason}"
        ) from None


def _connected(remote: Remote) -> SparkSession:
    session = remote.open()
    _ = session.version  # the first request to the server
    return session


def _classic(master: str, scratch: Path, java: str, own_conf: Mapping[str, str] | None) -> SparkSession:
    # By default Spark uses the `python3` on the PATH, which need not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("freshline")
    for name, value in {
        **_configuration(master, scratch, java, large=own_conf is not None),
        **(own_conf or {}),
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _configuration(master: str, scratch: Path, java: str, *, large: bool) -> dict[str, str]:
    # A JVM whose heap was full goes on without some of its threads, and the next run would fail too.
    exit_option = "-XX:+ExitOnOutOfMemoryError"
    java = f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} -XX:-UsePerfData {exit_option} {java}"
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
        **SESSION_CONF,
    }
    if not master.startswith("local"):
        return settings | _cluster()
    # Another user of this machine could connect to the ports of the driver. Spark makes a random secret itself, but
    # only for one process: a local cluster would need it as an argument, which everybody can read.
    authenticated = {} if master.startswith("local-cluster") else {"spark.authenticate": "true"}
    return settings | _local(java, scratch, large=large) | authenticated


def _local(java: str, scratch: Path, *, large: bool) -> dict[str, str]:
    """Return the settings of a single JVM: no network, and a small young generation unless it is large.

    The serial collector would stop all tasks for one thread: a large write takes 5 to 21 percent longer with it.
    """
    memory = _memory_gb(large=large)
    collector = "" if large else f" -XX:+UseParallelGC -XX:MaxNewSize={memory * NEW_MB_PER_GB}m"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{memory}g",
        "spark.local.dir": str(scratch),
        # Spark's Python processes start in the project's directory, which must not be on their import path.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        # In one process no stage runs twice. Tracking the attempt of each row costs a large write 3 percent.
        "spark.sql.legacy.observeMetricsAggregateAllAttempts": "true",
        "spark.driver.extraJavaOptions": java + collector,
    }


def _cluster() -> dict[str, str]:
    """Return the settings of a cluster: an idle runner releases its executors for other runners and large runs."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "30s",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "60s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "60s",
    }


def _memory_gb(*, large: bool) -> int:
    """Return the heap size: a quarter of the machine, between 1 and 4 GB; half of the machine for a large run."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return int(max(1, total // 2 if large else min(4, total // 4)))


def _quiet() -> None:
    """Silence PySpark, which logs the whole JVM stack of every query error; the run's error has one sentence."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")  # the error that follows has it


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]
