"""Looks at the version of a Delta table that another system writes. No Spark, and no data files are read."""

from __future__ import annotations

import posixpath
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshline.definitions.schema.watch import DeltaWatch
from freshline.model.allowed_paths import SCHEME, target
from freshline.model.json import Json
from freshline.model.watch import Found, Look, Mode
from freshline.watching.look import LookContext, LookError, masked

# Commits that only arrange files. Others, and unknown ones, may change rows.
MAINTENANCE = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK"})
MOST_COMMITS = 1_000


def look(spec: DeltaWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Look at the version. Another id of the table means that it was created again."""
    table = _open(_address(spec.delta, context), spec.delta)
    version, identity = table.version(), str(table.metadata().id)
    now = {"table": identity, "version": version}
    if position == now:
        return Look((), now, f"Version {version} was seen before.")
    before = position if position and position["table"] == identity else None
    if before is not None and _only_maintenance(table, before["version"], version):
        return Look((), now, f"Version {version} has the rows of version {before['version']}.")
    payload = {"table": identity, "from": before["version"] if before else None, "to": version}
    data_version = f"{version}@{identity[:8]}" if mode == "snapshot" else None
    found = Found(f"delta:{identity}@{version}", data_version, payload)
    return Look((found,), now, f"Version {version} is new.")


def _address(path: str, context: LookContext) -> str:
    """Return the absolute path or URL. Raise `LookError` if the source does not allow it."""
    relative = not SCHEME.fullmatch(path) and context.allowed.root is not None
    try:
        # An absolute path stays as it is.
        named = target(posixpath.normpath(posixpath.join(context.allowed.root or "", path)) if relative else path)
    except ValueError as error:
        raise LookError(f"'delta' is {path!r} and {error}") from None
    if not context.allowed.covers(named, context.allowed.targets()):
        raise LookError(f"'delta' is {path!r}, which is not allowed; {context.allowed.allowed()}")
    return str(named)


def _open(address: str, shown: str) -> DeltaTable:
    try:
        return DeltaTable(address)
    except TableNotFoundError:
        raise LookError(f"there is no Delta table at {shown!r}") from None
    except (DeltaError, OSError, ValueError) as error:
        raise LookError(f"the Delta table at {shown!r} cannot be opened: {masked(str(error), ())}") from None


def _only_maintenance(table: DeltaTable, after: int, version: int) -> bool:
    """Return whether all commits after a version only arranged files. Commits that are gone may have changed rows."""
    wanted = version - after
    if not 0 < wanted <= MOST_COMMITS:
        return False
    try:
        commits: list[dict[str, Any]] = table.history(wanted)
    except (DeltaError, OSError, ValueError):
        return False
    return len(commits) == wanted and all(one.get("operation") in MAINTENANCE for one in commits)
