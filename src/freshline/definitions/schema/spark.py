"""Spark settings of a workflow, and whether its runs need a separate Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from freshline.definitions import names
from freshline.definitions.schema.base import Model

MOST = 100
RUNTIME = "spark.sql."
# Spark reads these SQL settings only when it starts. A test compares the list with Spark.
STATIC_SQL = frozenset(
    f"{RUNTIME}{name}"
    for name in (
        "broadcastExchange.maxThreadThreshold",
        "cache.serializer",
        "catalog.spark_catalog.defaultDatabase",
        "catalogImplementation",
        "codegen.cache.maxEntries",
        "codegen.comments",
        "debug",
        "defaultUrlStreamHandlerFactory.enabled",
        "event.truncate.length",
        "extensions",
        "extensions.test.loadFromCp",
        "filesourceTableRelationCacheSize",
        "globalTempDatabase",
        "hive.metastore.barrierPrefixes",
        "hive.metastore.jars",
        "hive.metastore.jars.path",
        "hive.metastore.sharedPrefixes",
        "hive.metastore.version",
        "hive.thriftServer.singleSession",
        "hive.version",
        "legacy.sessionInitWithConfigDefaults",
        "metadataCacheTTLSeconds",
        "queryExecutionListeners",
        "reflect.allowList",
        "shuffleExchange.maxThreadThreshold",
        "sources.disabledJdbcConnProviderList",
        "sources.schemaStringLengthThreshold",
        "streaming.streamingQueryListeners",
        "streaming.ui.enabled",
        "streaming.ui.enabledCustomMetricList",
        "streaming.ui.retainedProgressUpdates",
        "streaming.ui.retainedQueries",
        "subquery.maxThreadThreshold",
        "ui.retainedExecutions",
        "warehouse.dir",
    )
)
# Names and prefixes of settings that Freshline sets itself, with the reason.
OWN = {
    "spark.master": "where Spark runs is FRESHLINE_SPARK_MASTER of the worker",
    "spark.remote": "where Spark runs is FRESHLINE_SPARK_REMOTE of the worker",
    "spark.submit.": "the worker starts Spark itself",
    "spark.api.mode": "where Spark runs is a setting of the worker",
    "spark.connect.": "these are settings of a Spark Connect server",
    "spark.local.connect": "where Spark runs is a setting of the worker",
    "spark.driver.host": "the worker knows its own address",
    "spark.driver.bindAddress": "the worker knows its own address",
    "spark.driver.extraJavaOptions": "the worker sets its own options there",
    "spark.authenticate": "the worker protects the ports of its driver; for a cluster use spark-defaults.conf",
    "spark.local.dir": "temporary files go to TMPDIR of the worker, and are removed with the runner",
    "spark.hadoop.mapreduce.fileoutputcommitter.": "a table must become visible as a whole",
    "spark.hadoop.mapreduce.outputcommitter.": "a table must become visible as a whole",
    "spark.hadoop.mapred.output.committer.": "a table must become visible as a whole",
    "spark.hadoop.parquet.": "tables are written in one form; older encodings are available with 'table: {parquet: 1}'",
    "spark.sql.sources.commitProtocolClass": "a table must become visible as a whole",
    "spark.sql.sources.outputCommitterClass": "a table must become visible as a whole",
    "spark.sql.parquet.output.committer.class": "a table must become visible as a whole",
    "spark.sql.parquet.outputTimestampType": "tables are written in one form, whoever writes them",
    "spark.sql.parquet.writeLegacyFormat": "tables are written in one form, whoever writes them",
    "spark.sql.parquet.fieldId.": "tables are written in one form, whoever writes them",
    "spark.sql.session.timeZone": "every run computes in UTC; convert in the query",
    "spark.sql.caseSensitive": "columns are compared without regard to case, here and by all who read the tables",
}
# Spark redacts names that match this pattern. Definitions are stored and shown.
CREDENTIAL = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


def _text(value: Any) -> Any:
    """Return a scalar as text. Other values are rejected by the strict type that follows."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Name = Annotated[str, AfterValidator(names.spark_setting)]
Value = Annotated[
    str,
    BeforeValidator(_text),
    Field(max_length=10_000),
    WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": 10_000}),
]


class Spark(Model):
    """Settings for the runs of one workflow. Changing them does not change the job: the data stays the same."""

    conf: Annotated[dict[Name, Value], Field(max_length=MOST)] = Field(
        default={}, description="Spark settings by name, for the runs of this workflow alone."
    )
    size: Literal["small", "large"] = Field(
        default="small", description="large: runs get a separate runner that starts with these settings."
    )


def runtime(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a session accepts while Spark runs."""
    return {name: value for name, value in conf.items() if is_runtime(name)}


def is_runtime(name: str) -> bool:
    """Return whether a session accepts this setting while Spark runs."""
    return name.startswith(RUNTIME) and name not in STATIC_SQL


def refusals(spark: Spark) -> Iterator[tuple[str, str]]:
    """Yield the settings that are not allowed, each with the reason."""
    for name in spark.conf:
        if refusal := _refusal(name, spark.size):
            yield name, refusal


def _refusal(name: str, size: str) -> str | None:
    for own, why in OWN.items():
        if name == own or (own.endswith(".") and name.startswith(own)):
            return f"{name!r} is Freshline's own: {why}; remove it"
    if CREDENTIAL.search(name):
        return (
            f"{name!r} looks like a credential, and definitions are stored and shown; "
            "put it into spark-defaults.conf of the worker or of the cluster"
        )
    if size == "small" and not is_runtime(name):
        return (
            f"{name!r} cannot be set while Spark runs; with 'size: large' the workflow gets a separate runner "
            "that starts with it"
        )
    return None
