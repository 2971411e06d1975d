"""Finds sources whose data exists, so that the first apply can report them (docs/semantics.md#R3.5)."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from contextlib import suppress

from freshline.definitions.loading.project import Project
from freshline.definitions.schema.assets import Source
from freshline.model.allowed_paths import GLOB, target

_BRACES = re.compile(r"\{([^{}]*)\}")


def sources_with_data(project: Project) -> frozenset[str]:
    """Return the snapshot sources whose path names at least one file that this process can see."""
    return frozenset(one.definition.asset_id for one in project.sources if _has_data(project, one.definition))


def _has_data(project: Project, source: Source) -> bool:
    if source.mode == "append" or source.watch is not None or source.partitioning is not None:
        return False  # of a source with partitions, somebody has to say which of them exist
    location = project.source_location(source)
    return location is not None and holds_a_file(location["path"])


def holds_a_file(path: str) -> bool:
    """Return whether a path or pattern of this machine names a file, or a directory with one.

    Of a URL of another storage: no. It would take credentials and time that an apply does not have.
    """
    try:
        named = target(path, free=True)
    except ValueError:
        return False
    return not named.scheme and any(_is_or_contains_file(one) for one in _matches(named.path))


def _matches(path: str) -> Iterator[str]:
    """Yield what Hadoop would match: also {a,b}, and a class of characters that is negated by ^."""
    if braces := _BRACES.search(path):
        for choice in braces[1].split(","):
            yield from _matches(path[: braces.start()] + choice + path[braces.end() :])
    elif set(path) & GLOB:
        yield from (one for one in glob.iglob(path.replace("[^", "[!")) if not _ignored(os.path.basename(one)))  # noqa: PTH119, PTH207
    else:
        yield path


def _is_or_contains_file(path: str) -> bool:
    waiting = [path]
    while waiting:
        found = waiting.pop()
        if os.path.isfile(found):  # noqa: PTH113 - one of many
            return True
        with suppress(OSError), os.scandir(found) as entries:  # what cannot be listed cannot be seen
            # A link to a directory could lead back here.
            waiting.extend(
                one.path for one in entries if not _ignored(one.name) and (one.is_file() or not one.is_symlink())
            )
    return False


def _ignored(name: str) -> bool:
    """Return whether Spark leaves a file or directory of this name out."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
