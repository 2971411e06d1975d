"""Checks of `watch` blocks that need the project: paths that a report of the source could not name."""

from __future__ import annotations

from collections.abc import Iterator

from freshline.definitions.schema.watch import DeltaWatch, FilesWatch
from freshline.definitions.schema.workflow import Source
from freshline.definitions.validation.problems import Problem
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.file_patterns import parse, require_allowed

HINT = "add its directory to 'allow', or move the files"


def watch_problems(source: Source, allowed: AllowedPaths) -> Iterator[Problem]:
    """Yield the mistakes in the paths of a watch."""
    watch = source.watch
    if not isinstance(watch, FilesWatch | DeltaWatch):
        return
    path = watch.files if isinstance(watch, FilesWatch) else watch.delta
    loc = ("watch", watch.kind)
    try:
        pattern = parse(path, allowed.root)
    except ValueError as error:
        yield Problem(loc, f"'{watch.kind}' is {path[:80]!r} and {error}")
        return
    try:
        require_allowed(pattern, allowed)
    except ValueError as error:
        yield Problem(loc, f"'{watch.kind}' is {path[:80]!r} and {error}; {HINT}")
