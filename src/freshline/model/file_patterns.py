"""Patterns of files: `drop/*.csv`, `s3a://bucket/in/**/*.parquet`. Pure: it compares texts.

`*`, `?` and `[..]` match within a name, `**` any number of directories. As for Spark, names that begin with `_` or `.`
are not data: only a pattern that begins with that character matches them. `{partitionKey}` in a name is the key of the
partition to which a file belongs, percent-encoded: `drop/dt={partitionKey}/*.csv`.
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

    @cached_property
    def key_place(self) -> int | None:
        """The place of the name with the key; None without one. After `**` it counts from the end: negative."""
        place = next((number for number, name in enumerate(self.names) if PARTITION in name), None)
        return place if place is None or DEEP not in self.names[:place] else place - len(self.names)

    @property
    def key_begins(self) -> str | None:
        """Where the key begins, as a text: the path up to it. None if names with patterns come before it."""
        place = self.key_place
        if place is None or place < 0 or set("".join(self.names[:place])) & GLOB:
            return None
        first = self.names[place].partition(PARTITION)[0]
        directory = join(str(self.base).rstrip("/"), "/".join(self.names[:place]))
        return None if set(first) & GLOB else f"{directory}/{first}"

    def encoded_key(self, below: str) -> str:
        """Return the key in a path below the base that matches, as it is written there."""
        place = self.key_place
        assert place is not None  # noqa: S101 - the caller asks only patterns with a key
        expression = self.expressions[place]
        found = expression.fullmatch(below.split("/")[place]) if expression else None
        assert found is not None  # noqa: S101 - the path matches
        return found["key"]

    def matches(self, below: str) -> bool:
        """Return whether a path below the base matches."""
        return _matches(tuple(below.split("/")), self.expressions)

    def reported(self, below: str) -> str:
        """Return the path under which a file below the base is reported."""
        return f"{self.prefix}{below}"


def parse(text: str, root: str | None) -> Pattern:
    """Parse a pattern. `root`: the project's directory. Raise `ValueError` with the end of a sentence."""
    if wrong := set(text.replace(PARTITION, "")) & REFUSED:
        raise ValueError(f"contains {min(wrong)!r}; use the patterns *, ? and [..]")
    relative = not text.startswith("/") and not SCHEME.fullmatch(text)
    whole = target(text, root=root, free=True)
    if relative and root is None:
        raise ValueError("is relative, and the project's directory is not known")
    names = [name for name in whole.path.split("/") if name]
    own = len([name for name in (root or "").split("/") if name]) if relative else 0
    first = next((n for n, name in enumerate(names) if n >= own and _varies(name)), len(names) - 1)
    if PARTITION in text:
        _require_one_key(names[own:])
    if first < own:
        raise ValueError("names no file; write a path or a pattern such as drop/*.csv")
    base = Target(whole.scheme, whole.authority, "/" + "/".join(names[:first]))
    shown = "/".join(names[own:first]) if relative else str(base).rstrip("/")
    return Pattern(base, tuple(names[first:]), f"{shown}/" if shown or not relative else "")


def _require_one_key(names: list[str]) -> None:
    """Raise `ValueError` if it is not clear which part of a path is the key."""
    named = [number for number, name in enumerate(names) if PARTITION in name]
    if not named:
        raise ValueError(f"has {PARTITION} in the name of a bucket or host; write it in the path below")
    if len(named) > 1 or names[named[0]].count(PARTITION) > 1:
        raise ValueError(
            f"contains {PARTITION} more than once; write it once: the key of several dimensions is one name, as in"
            " 2024-01-31%7Ceu"
        )
    place, name = named[0], names[named[0]]
    if "key" not in _expression(name).groupindex:
        raise ValueError(f"has {PARTITION} in brackets, which match one character; write it outside of them")
    if "*" in name:
        raise ValueError(
            f"has * and {PARTITION} in one name, {name[:80]!r}, so that it is not clear where the key ends; put the key"
            f" into the name of a directory, as in {PARTITION}/*.csv, or write the rest of the name"
        )
    if DEEP in names[:place] and DEEP in names[place + 1 :]:
        raise ValueError(
            f"has {DEEP} before and after {PARTITION}, so that it is not clear which directory is the key; keep one"
            " of them"
        )


def _varies(name: str) -> bool:
    """Return whether a name of a pattern matches several names."""
    return bool(set(name) & GLOB) or PARTITION in name


def require_allowed(pattern: Pattern, allowed: AllowedPaths) -> None:
    """Raise `ValueError` with the end of a sentence if a report could not name the files of the pattern."""
    plain = not any(_varies(name) for name in pattern.names)
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
    names = fnmatch.translate(name).replace(re.escape(PARTITION), "(?P<key>.+)")
    return re.compile(rf"{visible}(?!.*{re.escape(UNFINISHED)}$){names}", re.DOTALL)


def join(directory: str, name: str) -> str:
    """Return the path of a name in a directory. One of them may be empty."""
    return posixpath.join(directory, name) if directory and name else directory or name
