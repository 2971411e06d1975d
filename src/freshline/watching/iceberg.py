"""The kind `iceberg`: the snapshots of a table. pyiceberg reads them from the table's catalog; no data file is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from freshline.definitions.schema.watch import IcebergWatch
from freshline.model.json import Json
from freshline.watching.look import Look, LookContext, LookError, Mode, masked, missing_extra
from freshline.watching.snapshots import Snapshot, Table, compare

SECRET = re.compile(r"key|secret|token|password|credential|signer", re.IGNORECASE)
FORM = 'an address, as in https://catalog.example.com, or properties as JSON, as in {"type": "rest", "uri": "..."}'


def look(spec: IcebergWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Load the table's metadata and compare its snapshots with the position."""
    try:
        import pyiceberg  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError:
        raise missing_extra("`watch: {iceberg: ...}`", "pyiceberg", "iceberg") from None
    properties = _properties(context.secret(spec.catalog, "catalog"), spec.catalog.env)
    return compare(mode, position, _table(spec, properties), context)


def _properties(text: str, variable: str) -> dict[str, str]:
    """Return the properties of the catalog. Errors show no part of them."""
    if not text.lstrip().startswith("{"):
        return {"uri": text.strip()}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str | int | bool) for value in found.values()):
        raise LookError(f"the value of {variable} is not a catalog; allowed is {FORM}")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def _table(spec: IcebergWatch, properties: Mapping[str, str]) -> Table:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415

    # A look must not write: a catalog in a database would make its tables.
    settings = {"init_catalog_tables": "false", **properties}
    try:
        catalog = load_catalog(settings.pop("name", "default"), **settings)
        try:
            metadata = catalog.load_table(spec.iceberg).metadata
        finally:
            catalog.close()
    except NoSuchTableError:
        raise LookError(f"the catalog has no table {spec.iceberg}", hint="names begin with the namespace") from None
    except Exception as error:  # noqa: BLE001 - each catalog and each file system has its own errors
        reason = masked(f"{type(error).__name__}: {error}", _secrets(properties))
        raise LookError(f"the table {spec.iceberg} cannot be loaded: {reason}") from None
    snapshots = [
        Snapshot(
            id=str(one.snapshot_id),
            parent=None if one.parent_snapshot_id is None else str(one.parent_snapshot_id),
            operation=one.summary.operation.value if one.summary else "append",
            timestamp_ms=one.timestamp_ms,
        )
        for one in metadata.snapshots
    ]
    current = None if metadata.current_snapshot_id is None else str(metadata.current_snapshot_id)
    return Table(spec.iceberg, str(metadata.table_uuid), current, {one.id: one for one in snapshots})


def _secrets(properties: Mapping[str, str]) -> set[str]:
    """Return what no error may show: values with a telling name, and passwords in addresses."""
    named = {value for name, value in properties.items() if SECRET.search(name)}
    return named | {password for value in properties.values() if (password := _password(value))}


def _password(address: str) -> str | None:
    try:
        return urlsplit(address).password
    except ValueError:
        return address
