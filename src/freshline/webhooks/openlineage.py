"""Runs as OpenLineage events, from what the store knows about them: which data was read, and what became of it.

START when a worker first claims a run, RUNNING when another one takes over, then one of COMPLETE, FAIL and ABORT. A run
that was canceled before it began has no lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from freshline import __version__
from freshline.model.enums import EventType
from freshline.model.events import rfc3339
from freshline.model.json import Json

Row = Mapping[str, Any]
SPEC = "https://openlineage.io/spec"
SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
STATES = {
    EventType.RUN_STARTED: "START",
    EventType.RUN_SUCCEEDED: "COMPLETE",
    EventType.RUN_FAILED: "FAIL",
    EventType.RUN_CANCELED: "ABORT",
}
# Facets by the name that they have in an event: the version and the name of their schema.
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


def run_event(event: Row, lineage: Row | None) -> Json | None:
    """The OpenLineage event for one of ours; None: there is nothing to tell.

    `lineage`: `{queued_at, inputs, outputs}` of the run; without it, as after the retention, the run and the job alone.
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
        "run": {"runId": data["runId"], "facets": _about_run(data, lineage)},
        "job": {"namespace": namespace, "name": data["workflowSlug"], "facets": _about_job()},
        "inputs": [_dataset(namespace, one) for one in (lineage or {}).get("inputs", ())],
        "outputs": [_output(namespace, one) for one in _outputs(state, lineage)],
    }


def _outputs(state: str, lineage: Row | None) -> Sequence[Row]:
    """What was published; before that, and if nothing was, what the workflow makes."""
    found = (lineage or {}).get("outputs", ())
    return [one for one in found if state != "COMPLETE" or one["data_version"] is not None]


def _about_run(data: Row, lineage: Row | None) -> Json:
    engine = {"name": "Freshline", "version": __version__}
    facets = {"processing_engine": _facet("processing_engine", **engine)}
    if lineage is not None:
        facets["nominalTime"] = _facet("nominalTime", nominalStartTime=rfc3339(lineage["queued_at"]))
    if "error" in data:
        message = str(data["error"].get("message", data["error"].get("code", "")))
        facets["errorMessage"] = _facet("errorMessage", message=message, programmingLanguage="python")
    return facets


def _about_job() -> Json:
    kind = {"processingType": "BATCH", "integration": "FRESHLINE", "jobType": "WORKFLOW"}
    return {"jobType": _facet("jobType", **kind)}


def _dataset(namespace: str, row: Row) -> Json:
    facets = {}
    if row["data_version"] is not None:
        facets["version"] = _facet("version", datasetVersion=row["data_version"])
    if row["schema"] is not None:
        facets["schema"] = _facet("schema", fields=_fields(row["schema"]))
    return {"namespace": namespace, "name": row["asset_id"], "facets": facets}


def _output(namespace: str, row: Row) -> Json:
    made = _dataset(namespace, row)
    if row["checks"]:
        made["facets"]["dataQualityAssertions"] = _facet("dataQualityAssertions", assertions=_assertions(row["checks"]))
    sizes = {"rowCount": row["rows"], "size": row["bytes"]}
    known = {name: value for name, value in sizes.items() if value is not None}
    return {**made, "outputFacets": {"outputStatistics": _facet("outputStatistics", **known)} if known else {}}


def _assertions(checks: Sequence[Row]) -> list[Json]:
    return [{"assertion": one["check"], "success": one["passed"], "severity": one["severity"]} for one in checks]


def _fields(schema: Row) -> list[Json]:
    """The columns of a table, from Spark's own form of a schema; those of a structure are inside of it."""
    return [_field(one, place) for place, one in enumerate(schema.get("fields", ()), 1)]


def _field(field: Row, place: int) -> Json:
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


def _producer() -> str:
    return f"urn:freshline:{__version__}"
