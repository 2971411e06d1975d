"""Patterns of files: `drop/*.csv`, `s3a://bucket/in/**/*.parquet`. Pure: it compares texts.

`*`, `?` and `[..]` match within a name, `**` any number of directories. As for Spark, names that begin with `_` or `.`
are not data: only a pattern that begins with that character matches them.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from functools import cached_property

from freshline.model.allowed_paths import GLOB, REFUSED, SCHEME, AllowedPaths, Target, target

DEEP = "**"
UNFINISHED = "._COPYING_"  # the suffix of files that `hdfs dfs -put` is still writing
PARTITION = "{partitionKey}"


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern.

    `base`: the directory before the first name with a pattern. `names`: what follows. `prefix`: how a file is reported:
    relative to the project if the pattern is, so that a project can be moved.
    """

    base: Target
    names: tuple[str, ...]
    prefix: str

    @cached_property
    def expressions(self) -> tuple[re.Pattern[str] | None, ...]:
        """One expression for each name; None for `**`."""
        return tuple(None if name == DEEP else _expression(name) for name in self.names)

    @property
    def deep(self) -> bool:
        """Whether directories of any depth are meant."""
        return DEEP in self.names

    def matches(self, below: str) -> bool:
        """Return whether a path below the base matches."""
        return _matches(tuple(below.split("/")), self.expressions)

    def reported(self, below: str) -> str:
        """Return the path under which a file below the base is reported."""
        return f"{self.prefix}{below}"


def parse(text: str, root: str | None) -> Pattern:
    """Parse a pattern. `root`: the project's directory. Raise `ValueError` with the end of a sentence."""
    if PARTITION in text:
        raise ValueError(f"contains {PARTITION}; a watch does not say which partition changed; report the partitions")
    if wrong := set(text) & REFUSED:
        raise ValueError(f"contains {min(wrong)!r}; use the patterns *, ? and [..]")
    relative = not text.startswith("/") and not SCHEME.fullmatch(text)
    whole = target(text, root=root)
    if relative and root is None:
        raise ValueError("is relative, and the project's directory is not known")
    names = [name for name in whole.path.split("/") if name]
    own = len([name for name in (root or "").split("/") if name]) if relative else 0
    first = next((n for n, name in enumerate(names) if n >= own and set(name) & GLOB), len(names) - 1)
    if first < own:
        raise ValueError("names no file; write a path or a pattern such as drop/*.csv")
    base = Target(whole.scheme, whole.authority, "/" + "/".join(names[:first]))
    shown = "/".join(names[own:first]) if relative else str(base).rstrip("/")
    return Pattern(base, tuple(names[first:]), f"{shown}/" if shown or not relative else "")


def require_allowed(pattern: Pattern, allowed: AllowedPaths) -> None:
    """Raise `ValueError` with the end of a sentence if a report could not name the files of the pattern."""
    plain = not set("".join(pattern.names)) & GLOB
    path = posixpath.join(pattern.base.path, *pattern.names) if plain else pattern.base.path
    named = Target(pattern.base.scheme, pattern.base.authority, path)
    if not allowed.covers(named, allowed.targets()):
        raise ValueError(f"leads to {named}, which is not allowed; {allowed.allowed()}")


def _matches(names: tuple[str, ...], expressions: tuple[re.Pattern[str] | None, ...]) -> bool:
    if not expressions:
        return not names
    first, *rest = expressions
    if first is None:
        deeper = bool(names) and not hidden(names[0]) and _matches(names[1:], expressions)
        return deeper or _matches(names, tuple(rest))
    return bool(names) and first.fullmatch(names[0]) is not None and _matches(names[1:], tuple(rest))


def hidden(name: str) -> bool:
    """Return whether a name is not data."""
    return name[:1] in {".", "_"} or name.endswith(UNFINISHED)


def _expression(name: str) -> re.Pattern[str]:
    visible = "" if name[:1] in {".", "_"} else r"(?![._])"
    return re.compile(rf"{visible}(?!.*{re.escape(UNFINISHED)}$){fnmatch.translate(name)}", re.DOTALL)


def join(directory: str, name: str) -> str:
    """Return the path of a name in a directory. One of them may be empty."""
    return posixpath.join(directory, name) if directory and name else directory or name
