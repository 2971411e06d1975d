"""Checks the return value of a job against the outputs that its step declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from freshline.definitions.schema.workflow import Freshness, Produces, Step
from freshline.errors import JobError
from freshline.model.json import Json
from freshline.model.run import StagedOutput
from freshline.suggest import suggestion

ENTRY_FIELDS = ("assetId", "dataVersion", "payload", "partitionKey", "freshness")
MAX_PAYLOAD = 256 * 1024
MAX_VERSION = 1_000
SHOWN_KEYS = 5


def is_report(returned: Any) -> bool:
    """Return whether it is `{"assets": [...]}`: a report about data that the job wrote itself."""
    return isinstance(returned, Mapping) and isinstance(returned.get("assets"), list)


def returned_tables(step: Step, returned: Any, is_table: Callable[[Any], bool]) -> dict[str, Any]:
    """Return the DataFrames by asset."""
    if is_table(returned):
        if len(step.produces) != 1:
            names = ", ".join(p.asset_id for p in step.produces) or "none"
            raise JobError(
                f"the job returned one DataFrame, but the step produces {names}; "
                "return a mapping of asset id to DataFrame"
            )
        return {step.produces[0].asset_id: returned}
    tables = {} if returned is None else returned
    if not isinstance(tables, Mapping) or not all(is_table(value) for value in tables.values()):
        raise JobError(
            f"the job returned {_shown(returned)}; allowed are a Spark DataFrame, a mapping of asset id to "
            'Spark DataFrame, or {"assets": [...]} for data that it wrote elsewhere'
        )
    check_declared(step, tables)
    return dict(tables)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}: {type(item).__qualname__}" for key, item in list(value.items())[:5])
        return f"a mapping {{{inside}}}"
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"


def reported_outputs(
    step: Step, returned: Any, partition_key: str = "", batch: Sequence[str] = ()
) -> list[StagedOutput]:
    """Return the outputs that the job reports. None means all that are not optional, at an unknown version.

    `partition_key`: the partition that the run computes. `batch`: the partitions of a run of several; then each entry
    names one of them.
    """
    if batch:
        return _reported_batch(step, returned, batch)
    if returned is None:
        returned = {"assets": [{"assetId": p.asset_id} for p in step.produces if not p.optional]}
    if not is_report(returned) or set(returned) != {"assets"}:
        raise JobError(f'the job returned {_shown(returned)}; allowed are None and {{"assets": [{{"assetId": ...}}]}}')
    entries = [_checked_entry(entry, partition_key) for entry in returned["assets"]]
    ids = [entry["assetId"] for entry in entries]
    if twice := sorted({asset for asset in ids if ids.count(asset) > 1}):
        raise JobError(f"the job reported {', '.join(twice)} more than once")
    check_declared(step, ids)
    check_complete(step, ids)
    produced = {p.asset_id: p for p in step.produces}
    return [_reported(entry, produced[entry["assetId"]], step.id) for entry in entries]


def _reported_batch(step: Step, returned: Any, batch: Sequence[str]) -> list[StagedOutput]:
    """Return the outputs of each partition of a batch, which the job reports together."""
    if returned is None:
        return [replace(one, partition_key=key) for key in batch for one in reported_outputs(step, None, key)]
    if not is_report(returned) or set(returned) != {"assets"}:
        raise JobError(f'the job returned {_shown(returned)}; allowed are None and {{"assets": [{{"assetId": ...}}]}}')
    entries: dict[str, list[Any]] = {key: [] for key in batch}
    for entry in returned["assets"]:
        key = entry.get("partitionKey") if isinstance(entry, Mapping) else None
        if key not in entries:
            raise JobError(
                f'an entry of "assets" has partitionKey {str(key)[:80]!r}; the run computes {len(batch)} partitions, '
                f"and each entry names one of them: {', '.join(batch[:SHOWN_KEYS])}{', …' * (len(batch) > SHOWN_KEYS)}"
            )
        entries[key].append(entry)
    return [
        replace(one, partition_key=key)
        for key, own in entries.items()
        for one in reported_outputs(step, {"assets": own}, key)
    ]


def _checked_entry(entry: Any, partition_key: str) -> Json:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("assetId"), str):
        raise JobError(f'an entry of "assets" is {str(entry)[:200]!r}; it needs a mapping with at least "assetId"')
    for name in entry:
        if name not in ENTRY_FIELDS:
            raise JobError(
                f"the entry of asset {entry['assetId']!r} has the field {name!r}; allowed are {', '.join(ENTRY_FIELDS)}"
                + suggestion(str(name), ENTRY_FIELDS)
            )
    given = entry.get("partitionKey") or partition_key
    if given != partition_key:
        allowed = f"{partition_key!r}, the partition of this run" if partition_key else "none: it has no partitions"
        raise JobError(
            f"asset {entry['assetId']!r} has partitionKey {str(given)[:80]!r}; allowed is {allowed}; leave it out"
        )
    return dict(entry)


def _reported(entry: Json, produced: Produces, step_id: str) -> StagedOutput:
    payload = _payload(produced.asset_id, entry.get("payload"))
    return StagedOutput(
        asset_id=produced.asset_id,
        step_id=step_id,
        data_version=_data_version(entry.get("dataVersion"), produced),
        location=_location(payload),
        payload=payload,
        freshness=_freshness(produced.asset_id, entry.get("freshness")),
    )


def _data_version(value: Any, produced: Produces) -> str | None:
    source = produced.data_version.source if produced.data_version else None
    if source == "none":
        return None
    if value is None and source == "reported":
        raise JobError(
            f"asset {produced.asset_id!r} has dataVersion.source 'reported', but the job reported no dataVersion"
        )
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= MAX_VERSION and "\x00" not in value):
        raise JobError(
            f"asset {produced.asset_id!r}: dataVersion is {str(value)[:80]!r}; "
            f"allowed are texts of 1 to {MAX_VERSION} characters"
        )
    return value


def _payload(asset_id: str, payload: Any) -> Any:
    try:
        text = json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise JobError(f"asset {asset_id!r}: the payload is not JSON: {error}") from None
    if len(text) > MAX_PAYLOAD or "\\u0000" in text:
        raise JobError(
            f"asset {asset_id!r}: the payload has {len(text)} bytes; allowed are {MAX_PAYLOAD}, without NUL characters"
        )
    return json.loads(text)


def _location(payload: Any) -> Json | None:
    """Return the location in the payload, from which consumers can read, as with sources."""
    if not isinstance(payload, Mapping) or not isinstance(payload.get("path"), str):
        return None
    return {"format": str(payload.get("format", "parquet")), "path": payload["path"]}


def _freshness(asset_id: str, freshness: Any) -> Json | None:
    if freshness is None:
        return None
    try:
        model = Freshness.model_validate(freshness)
    except ValidationError as error:
        raise JobError(f"asset {asset_id!r}: freshness {freshness!r}: {error.errors()[0]['msg']}") from None
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def check_declared(step: Step, returned: Iterable[str]) -> None:
    """Raise JobError for an asset that the step does not declare."""
    declared = [p.asset_id for p in step.produces]
    for asset in returned:
        if asset not in declared:
            raise JobError(
                f"step {step.id!r} returned asset {asset!r}, which it does not declare; "
                f"declared are: {', '.join(declared) or 'none'}" + suggestion(str(asset), declared)
            )


def check_complete(step: Step, returned: Container[str]) -> None:
    """Raise JobError if a declared output is missing (docs/semantics.md#R7.4)."""
    missing = [p.asset_id for p in step.produces if not p.optional and p.asset_id not in returned]
    if missing:
        raise JobError(
            f"step {step.id!r} declares {', '.join(missing)} in 'produces', but did not return it; "
            "return it or mark it 'optional: true'"
        )
