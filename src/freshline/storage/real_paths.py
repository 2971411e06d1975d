"""Confines a reported path again, on the machine that reads it, after symbolic links are resolved.

A link that is changed between this check and the reading is not noticed: who can write into an allowed directory
decides what is read from it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from freshline.errors import JobError, UsageError
from freshline.model.allowed_paths import GLOB, HINT, AllowedPaths, Target
from freshline.model.deliveries import Delivery
from freshline.model.run import PinnedInput


def confined(pinned: PinnedInput) -> PinnedInput:
    """Return the input with the path to read. Raise `JobError` if a report named a path that is not allowed now."""
    if pinned.partitions:
        return replace(pinned, partitions=[confined(one) for one in pinned.partitions])
    allowed = _allowed(pinned)
    if allowed is None or pinned.location is None:
        return pinned
    path = real_path(pinned.asset_id, pinned.location["path"], allowed)
    return replace(pinned, location={**pinned.location, "path": path})


def confined_delivery(pinned: PinnedInput, delivery: Delivery) -> Delivery:
    """Return a delivery of the input with the path to read. Raise `JobError` if its path is not allowed now."""
    allowed = _allowed(pinned)
    if allowed is None or delivery.path is None:
        return delivery
    return replace(delivery, path=real_path(pinned.asset_id, delivery.path, allowed))


def _allowed(pinned: PinnedInput) -> AllowedPaths | None:
    """Return what reports of the source may name. None: the location was not named by a report."""
    if pinned.allowed is None or pinned.location is None:
        return None
    allowed = AllowedPaths.from_json(dict(pinned.allowed))
    # Without a root it was declared by 0.1; a runner works in the directory of its project.
    return allowed if allowed.root else replace(allowed, root=os.getcwd())  # noqa: PTH109 - a text is needed


def real_path(asset_id: str, path: str, allowed: AllowedPaths) -> str:
    """Return the path without links, if it and everything that it matches or contains is allowed."""
    try:
        named = allowed.resolve(path)
    except UsageError as error:
        raise JobError(f"source {asset_id!r} is not read: {error.message}", hint=error.hint) from None
    if named.scheme:
        return str(named)
    prefixes = [_real(one) for one in allowed.targets() if not one.scheme]
    for found in _everything(named.path):
        if not allowed.covers(_real(Target("", "", found)), prefixes):
            raise JobError(
                f"source {asset_id!r} is not read: {found!r} leads by a symbolic link to a place that is not allowed; "
                f"{allowed.allowed()}",
                hint=HINT,
            )
    # Without links what is read is what was checked. A pattern stays one.
    return named.path if set(named.path) & GLOB else _real(named).path


def _real(place: Target) -> Target:
    return Target("", "", os.path.realpath(place.path))


def _everything(path: str) -> Iterator[str]:
    """Yield what a path names: itself, the matches of its patterns, and all links below it."""
    seen: set[str] = set()
    waiting = [path, *_matches(path)]
    while waiting:
        found = waiting.pop()
        yield found
        real = os.path.realpath(found)
        if real not in seen and Path(real).is_dir():
            seen.add(real)
            waiting.extend(_links(real))


def _matches(path: str) -> list[str]:
    """Return at least what Hadoop matches: a name with a class of characters counts as any name."""
    if not set(path) & GLOB:
        return []
    return glob.glob(  # noqa: PTH207 - the pattern is absolute, and hidden names count
        "/".join("*" if set(name) & set("[]") else name for name in path.split("/")), include_hidden=True
    )


def _links(directory: str) -> Iterator[str]:
    """Yield the links below a directory, as Spark also reads directories inside it. Those that links lead to follow."""
    waiting = [directory]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:  # Spark cannot read it either, or it is gone
            for entry in entries:
                if entry.is_symlink():
                    yield entry.path
                elif entry.is_dir():
                    waiting.append(entry.path)
