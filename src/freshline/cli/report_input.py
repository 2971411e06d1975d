"""Reads reports that belong together from the arguments of `freshline report --together`, or from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from freshline.errors import UsageError
from freshline.model.reports import SourceReport
from freshline.suggest import did_you_mean

MOST_BYTES = 32 * 1024 * 1024
MOST_SEQUENCE = 2**63
_FIELDS = ("assetId", "dataVersion", "key", "sequence", "payload", "partitionKey")
_EXAMPLE = '{"reports": [{"assetId": "orders", "dataVersion": "v7"}, {"assetId": "lineitem", "dataVersion": "v7"}]}'


def named(assets: Sequence[str], payload: Any, *, key: str | None, partition: str) -> list[SourceReport]:
    """Return the reports of arguments like `orders=v7`. `payload`: of each source, by its id."""
    found = []
    for one in assets:
        asset_id, equals, version = one.partition("=")
        if not asset_id or (equals and not version):
            raise UsageError(f"{one!r} is not ASSET or ASSET=VERSION", hint="e.g. orders=v7")
        found.append((asset_id, version or None))
    payloads = _by_source(payload, [asset_id for asset_id, _ in found])
    return [
        SourceReport(asset_id, version, key, payload=payloads.get(asset_id), partition_key=partition)
        for asset_id, version in found
    ]


def read(path: Path) -> list[SourceReport]:
    """Return the reports of a file, which is the body of `POST /reports`."""
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(f"{path} has {path.stat().st_size} bytes; allowed are {MOST_BYTES}")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: this is not JSON: {error.msg}", hint=f"e.g. {_EXAMPLE}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text", hint=f"e.g. {_EXAMPLE}") from None
    reports = data.get("reports") if isinstance(data, dict) and set(data) == {"reports"} else None
    if not isinstance(reports, list):
        raise UsageError(f"{path}: this is not an object with a list 'reports' alone", hint=f"e.g. {_EXAMPLE}")
    return [_report(f"{path}: reports[{place}]", one) for place, one in enumerate(reports)]


def _by_source(payload: Any, assets: Sequence[str]) -> Mapping[str, Any]:
    if payload is None:
        return {}
    if not isinstance(payload, dict):
        raise UsageError(
            "with --together, --payload is an object of payloads by source",
            hint="""e.g. --payload '{"orders": {"path": "data/orders-7.parquet"}}'""",
        )
    unknown = next((name for name in payload if name not in assets), None)
    if unknown is not None:
        raise UsageError(
            f"--payload names {unknown!r}, which is not reported; reported are {', '.join(assets)}",
            hint=did_you_mean(unknown, assets),
        )
    return payload


def _report(where: str, given: Any) -> SourceReport:
    if not isinstance(given, dict):
        raise UsageError(f"{where}: this is not an object", hint=f"e.g. {_EXAMPLE}")
    for name, value in given.items():
        if name not in _FIELDS:
            allowed = f"allowed are {', '.join(_FIELDS)}"
            raise UsageError(f"{where}: unknown field {name!r}; {allowed}", hint=did_you_mean(name, _FIELDS))
        if not _fits(name, value):
            what = "a whole number from 0 on" if name == "sequence" else "a text"
            raise UsageError(f"{where}: {name} is {value!r}; it must be {what}")
    if "assetId" not in given:
        raise UsageError(f"{where}: assetId is missing", hint=f"e.g. {_EXAMPLE}")
    return SourceReport(
        given["assetId"],
        given.get("dataVersion"),
        given.get("key"),
        given.get("sequence"),
        given.get("payload"),
        given.get("partitionKey", ""),
    )


def _fits(name: str, value: object) -> bool:
    if name == "payload":
        return True
    if name == "sequence":
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_SEQUENCE
    return isinstance(value, str) and (value != "" or name == "partitionKey")
