"""Checks of `watch` blocks: paths that a report of the source could not name, and SQL that is not a query."""

from __future__ import annotations

import re
from collections.abc import Iterator

from freshline.definitions.schema.watch import QUERIES, DeltaWatch, FilesWatch, SqlWatch
from freshline.definitions.schema.workflow import Source
from freshline.definitions.validation.problems import Problem
from freshline.model.allowed_paths import AllowedPaths
from freshline.model.file_patterns import parse, require_allowed

BEGINNING = re.compile(r"(?:\s|\(|(?:--|#)[^\n]*|/\*.*?\*/)*(\w*)", re.DOTALL)  # after comments and parentheses
HINT = "add its directory to 'allow', or move the files"


def watch_problems(source: Source, allowed: AllowedPaths) -> Iterator[Problem]:
    """Yield the mistakes in the paths of a watch, and in how its query begins: the look parses the rest."""
    watch = source.watch
    if isinstance(watch, SqlWatch):
        first = BEGINNING.match(watch.sql)
        if first is None or first[1].upper() not in QUERIES:
            words = ", ".join(QUERIES)
            message = f"'sql' is {watch.sql[:40]!r}; allowed are queries, which begin with {words}"
            yield Problem(("watch", "sql"), message)
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
