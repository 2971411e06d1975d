"""Which paths a report of a source may name (docs/semantics.md#R3.1).

Pure: it compares texts. `freshline.storage.real_paths` does the same again after symbolic links are resolved.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from freshline.errors import UsageError
from freshline.model.json import Json

MAX_PATH = 4_096
SHOWN = 200
GLOB = frozenset("*?[]")
# Hadoop expands {a,b} before it splits a path, so that an alternative could contain `/` and `..`.
REFUSED = frozenset("{}\\")
# Some clients decode these, others do not: dot, slash, backslash, NUL and percent.
ENCODED = re.compile(r"%(?:2e|2f|5c|00|25)", re.IGNORECASE)
# Everything before a colon is a scheme for Hadoop, unless a slash comes first.
SCHEME = re.compile(r"([^/:]*):(.*)", re.DOTALL)
KEY = "allowed"  # in the declaration of a source
APPLY = "apply the project again with `freshline apply`, so that its directory is known"


@dataclass(frozen=True, slots=True)
class Target:
    """A path of this machine (no scheme), or of a file system with a scheme and an authority such as a bucket."""

    scheme: str
    authority: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}" if self.scheme else self.path

    def covers(self, other: Target) -> bool:
        """Return whether the other is the same, or below this one."""
        if (self.scheme, self.authority) != (other.scheme, other.authority):
            return False
        return other.path == self.path or other.path.startswith(f"{self.path.rstrip('/')}/")

    def below(self, other: Target) -> list[str]:
        """Return the names between this one and another that it covers."""
        return [name for name in other.path[len(self.path) :].split("/") if name]


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The paths that reports of one source may name.

    `root`: the project's directory, for relative paths; None if it is not known. `prefixes`: absolute paths and URLs.
    `hidden`: whether names that begin with a dot are allowed below them.
    """

    root: str | None
    prefixes: tuple[str, ...]
    hidden: bool = True

    @classmethod
    def of(cls, declaration: Mapping[str, Any], *, root: str | None) -> AllowedPaths:
        """Return what a stored declaration allows. A declaration of 0.1 has the default; `root` is its project."""
        stored = declaration.get(KEY)
        if stored is not None:
            return cls.from_json(stored)
        location = declaration.get("location")
        return default(root, location["path"] if location else None)

    @classmethod
    def from_json(cls, data: Json) -> AllowedPaths:
        """Return the record that was stored or sent as JSON."""
        return cls(data["root"], tuple(data["prefixes"]), data["hidden"])

    def as_json(self) -> Json:
        """Return the record as JSON."""
        return {"root": self.root, "prefixes": list(self.prefixes), "hidden": self.hidden}

    def targets(self) -> list[Target]:
        """Return the prefixes."""
        return [target(prefix) for prefix in self.prefixes]

    def resolve(self, path: object) -> Target:
        """Return the place that a report names. Raise `UsageError` if it is not allowed."""
        text = _text(path)
        try:
            named = target(text, root=self.root)
        except ValueError as error:
            raise UsageError(f"payload.path {_shown(text)} {error}") from None
        if not self.covers(named, self.targets()):
            raise UsageError(f"payload.path {_shown(text)} is not allowed; {self.allowed()}", hint=HINT)
        return named

    def covers(self, named: Target, prefixes: list[Target]) -> bool:
        """Return whether one of the prefixes covers the place. `prefixes`: these, or the same with links resolved."""
        return any(
            one.covers(named) and (self.hidden or not any(name.startswith(".") for name in one.below(named)))
            for one in prefixes
        )

    def allowed(self) -> str:
        """Return what is allowed, as a part of a sentence."""
        if not self.prefixes:
            return "no path is allowed"
        hidden = "" if self.hidden else ", except names that begin with a dot"
        return f"allowed is what is at or below {', '.join(self.prefixes)}{hidden}"


HINT = "'allow' of the source, in sources/, lists the directories and URLs whose data may be reported"


def default(root: str | None, path: str | None) -> AllowedPaths:
    """Return what is allowed without `allow`: the source's path; without one the project, except hidden names."""
    if path is not None:
        return AllowedPaths(root, base(path, root))
    return AllowedPaths(root, () if root is None else (root,), hidden=False)


def base(path: str, root: str | None) -> tuple[str, ...]:
    """Return a declared path as a prefix: up to the first name with a pattern. Empty if it cannot be one."""
    try:
        found = target(path, free=True)
    except ValueError:
        return ()
    names = found.path.split("/")
    first = len(root.split("/")) if root is not None and Target("", "", root).covers(found) else 0
    patterns = (number for number, name in enumerate(names) if number >= first and set(name) & (GLOB | REFUSED))
    plain = next(patterns, len(names))
    return (str(Target(found.scheme, found.authority, "/".join(names[:plain]) or "/")),)


def prefix(text: str, root: str) -> str:
    """Return an entry of `allow` as an absolute path or URL. Raise `ValueError` if it cannot be one."""
    if wrong := set(text) & (GLOB | REFUSED):
        raise ValueError(f"contains {min(wrong)!r}; allowed are directories, files and URLs without patterns")
    if SCHEME.fullmatch(text):
        return str(target(text))
    return str(target(posixpath.normpath(posixpath.join(root, text)), free=True))


def target(text: str, *, root: str | None = None, free: bool = False) -> Target:
    """Parse a path or a URL. Raise `ValueError` with the end of a sentence. `free`: braces and the like are allowed."""
    if not free and (wrong := set(text) & REFUSED):
        raise ValueError(f"contains {min(wrong)!r}; name one path, or use the patterns *, ? and [..]")
    found = SCHEME.fullmatch(text)
    if found is None:
        return Target("", "", _absolute(text, root))
    scheme, rest = found[1].lower(), found[2]
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) or not rest.startswith("/"):
        raise ValueError("is neither a path nor a URL such as s3a://bucket/directory")
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, below = rest[2:].partition("/")
        path = slash + below
    if scheme == "file":
        if authority or "%" in path:
            raise ValueError("is a file: URL with a host or an encoded character; give the path")
        return Target("", "", _names(path))
    return Target(scheme, authority, _names(path))


def _text(path: object) -> str:
    if not isinstance(path, str):
        raise UsageError(f"payload.path is {type(path).__name__}; allowed is a text")
    if len(path.encode("utf-8", "replace")) > MAX_PATH:
        raise UsageError(f"payload.path has {len(path)} characters; allowed are {MAX_PATH} bytes")
    if path != path.strip() or any(not one.isprintable() for one in path):
        raise UsageError(f"payload.path {_shown(path)} has a control character, or white space around it")
    if ENCODED.search(path):
        raise UsageError(f"payload.path {_shown(path)} has an encoded dot, slash or percent; write the path without it")
    return path


def _absolute(path: str, root: str | None) -> str:
    if path.startswith("/"):
        return _names(path)
    if root is None:
        raise ValueError(f"is relative, and the project's directory is not known; {APPLY}")
    return _names(f"{root}/{path}", given=path)


def _names(path: str, given: str | None = None) -> str:
    """Return the path without empty names and single dots."""
    if ".." in (path if given is None else given).split("/"):
        raise ValueError("contains '..'; write the path without it")
    return "/" + "/".join(name for name in path.split("/") if name not in {"", "."})


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
