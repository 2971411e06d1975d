"""Converts run events to OpenLineage events.

START when a worker first claims a run, RUNNING when another one takes over, then one of COMPLETE, FAIL and ABORT. A run
that was canceled before it started has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from freshline import __version__
from freshline.model.documents.asset import Column, Schema
from freshline.model.documents.lineage import Dataset, OutputDataset, RunLineage
from freshline.model.documents.run import Check
from freshline.model.enums import EventType
from freshline.model.events import rfc3339
from freshline.model.json import Json

D = TypeVar("D", bound=Dataset)
Event = Mapping[str, Any]
MOST_KEYS = 1_000
SPEC = "https://openlineage.io/spec"
SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
STATES = {
    EventType.RUN_STARTED: "START",
    EventType.RUN_SUCCEEDED: "COMPLETE",
    EventType.RUN_FAILED: "FAIL",
    EventType.RUN_CANCELED: "ABORT",
}
# By the name of a facet in an event: the version and the name of its schema.
FACETS = {
    "schema": ("1-2-0", "SchemaDatasetFacet"),
    "version": ("1-0-1", "DatasetVersionDatasetFacet"),
    "dataQualityAssertions": ("1-1-0", "DataQualityAssertionsDatasetFacet"),
    "outputStatistics": ("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "errorMessage": ("1-0-1", "ErrorMessageRunFacet"),
    "nominalTime": ("1-0-1", "NominalTimeRunFacet"),
    "jobType": ("2-0-4", "JobTypeJobFacet"),
    "processing_engine": ("1-1-1", "ProcessingEngineRunFacet"),
}


def run_event(event: Event, lineage: RunLineage | None) -> Json | None:
    """Return the OpenLineage event of a Freshline event; None if it has none.

    Without `lineage`, as after the retention of the run, it only names the run and the job.
    """
    data = event["data"]
    if event["type"] not in STATES or data.get("attempt", 0) < 1:
        return None
    state = STATES[EventType(event["type"])]
    namespace = f"freshline://{event['source'].removeprefix('/freshline/')}"
    return {
        "eventType": "RUNNING" if state == "START" and data["attempt"] > 1 else state,
        "eventTime": rfc3339(event["time"]),
        "producer": _producer(),
        "schemaURL": SCHEMA,
        "run": {"runId": data["runId"], "facets": _run_facets(data, lineage)},
        "job": {"namespace": namespace, "name": data["workflowSlug"], "facets": _job_facets()},
        "inputs": [_dataset(namespace, one) for one in _by_asset(lineage["inputs"] if lineage else ())],
        "outputs": [_output(namespace, one) for one in _by_asset(_outputs(state, lineage))],
    }


def _outputs(state: str, lineage: RunLineage | None) -> list[OutputDataset]:
    """Return the published outputs of a successful run, otherwise all outputs of the workflow."""
    return [
        one for one in (lineage["outputs"] if lineage else ()) if state != "COMPLETE" or one["data_version"] is not None
    ]


def _run_facets(data: Json, lineage: RunLineage | None) -> Json:
    engine = {"name": "Freshline", "version": __version__}
    facets = {"processing_engine": _facet("processing_engine", **engine)}
    if data["partitionKey"]:
        facets["freshline_partition"] = _own_facet("RunFacet", partitionKey=data["partitionKey"])
    if lineage is not None:
        facets["nominalTime"] = _facet("nominalTime", nominalStartTime=rfc3339(lineage["queued_at"]))
    if "error" in data:
        message = str(data["error"].get("message", data["error"].get("code", "")))
        facets["errorMessage"] = _facet("errorMessage", message=message, programmingLanguage="python")
    return facets


def _job_facets() -> Json:
    kind = {"processingType": "BATCH", "integration": "FRESHLINE", "jobType": "WORKFLOW"}
    return {"jobType": _facet("jobType", **kind)}


def _by_asset(rows: Iterable[D]) -> list[list[D]]:
    """Return the partitions of each asset: an asset is one dataset, whatever the number of its partitions."""
    found: dict[str, list[D]] = {}
    for row in rows:
        found.setdefault(row["asset_id"], []).append(row)
    return list(found.values())


def _dataset(namespace: str, rows: Sequence[Dataset]) -> Json:
    first, facets = rows[0], {}
    if (version := _version(rows)) is not None:
        facets["version"] = _facet("version", datasetVersion=version)
    schema = next((row["schema"] for row in rows if row["schema"] is not None), None)
    if schema is not None:
        facets["schema"] = _facet("schema", fields=_fields(schema))
    if keys := [row["partition_key"] for row in rows if row["partition_key"]]:
        facets["freshline_partitions"] = _own_facet("DatasetFacet", partitionKeys=keys[:MOST_KEYS])
    return {"namespace": namespace, "name": first["asset_id"], "facets": facets}


def _version(rows: Sequence[Dataset]) -> str | None:
    """Return the data version; of several partitions, a digest of theirs."""
    if len(rows) == 1:
        return rows[0]["data_version"]
    texts = [f"{row['partition_key']}={row['data_version']}" for row in rows]
    return f"partitions:{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:16]}"


def _output(namespace: str, rows: Sequence[OutputDataset]) -> Json:
    dataset = _dataset(namespace, rows)
    if checks := [check for row in rows for check in row["checks"] or ()]:
        dataset["facets"]["dataQualityAssertions"] = _facet("dataQualityAssertions", assertions=_assertions(checks))
    sizes = {"rowCount": _sum([row["rows"] for row in rows]), "size": _sum([row["bytes"] for row in rows])}
    known = {name: value for name, value in sizes.items() if value is not None}
    return {**dataset, "outputFacets": {"outputStatistics": _facet("outputStatistics", **known)} if known else {}}


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _assertions(checks: Sequence[Check]) -> list[Json]:
    return [{"assertion": one["check"], "success": one["passed"], "severity": one["severity"]} for one in checks]


def _fields(schema: Schema) -> list[Json]:
    """Convert a schema from Spark's JSON form; the fields of a struct are nested."""
    return [_field(one, place) for place, one in enumerate(schema.get("fields", ()), 1)]


def _field(field: Column, place: int) -> Json:
    kind = field["type"]
    named = {"name": field["name"], "ordinal_position": place}
    if isinstance(kind, str):
        return {**named, "type": kind}
    inner = {"fields": _fields(kind)} if kind["type"] == "struct" else {}
    return {**named, "type": kind["type"], **inner}


def _facet(facet: str, **content: Any) -> Json:
    number, name = FACETS[facet]
    url = f"{SPEC}/facets/{number}/{name}.json#/$defs/{name}"
    return {"_producer": _producer(), "_schemaURL": url, **content}


def _own_facet(base: str, **content: Any) -> Json:
    """Return a facet of Freshline's own. Its schema is that of all facets, which allows further fields."""
    return {"_producer": _producer(), "_schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/{base}", **content}


def _producer() -> str:
    return f"urn:freshline:{__version__}"
