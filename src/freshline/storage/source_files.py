"""The files of a source as a query of DuckDB: what Spark's reader would read, without Spark."""

from __future__ import annotations

import fnmatch
import glob
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from freshline.errors import JobError
from freshline.storage.base import Storage, storage_at
from freshline.storage.duckdb_tables import READERS, Field, duckdb_type, literal, quoted, text_list

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)/?(.*)")
PATTERN = frozenset("*?[")
# What DuckDB would otherwise guess. It skips lines until the rest looks regular, which loses rows of a damaged file.
CSV = {"header": "true", "quote": '"', "escape": '"', "comment": ""}
STRICT = ("skip = 0", "strict_mode = true", "null_padding = false", "sample_size = -1")
S3 = frozenset({"s3a", "s3n"})  # Hadoop's names of S3; the client knows one
TRUE = frozenset({"true", "yes", "1"})
OTHER_WAY = "read the files at `.path` or `.paths` yourself, or use the job kind 'spark.python'"


class SourceFiles(NamedTuple):
    """The files of a source. `options`: those of Spark's reader."""

    asset_id: str
    kind: str
    files: Sequence[str]
    options: Mapping[str, str]
    fields: Sequence[Field]


def remote_storage(path: str) -> Storage | None:
    """Return the storage of the bucket or file system that a URL names; None for a path on this machine."""
    found = ADDRESS.fullmatch(path)
    if found is None:
        return None
    return storage_at(f"{'s3' if found[1] in S3 else found[1]}://{found[2]}")


def files_at(path: str, storage: Storage | None) -> list[str]:
    """Return the files that Spark would read: of a file, of a directory at any depth, or of a pattern."""
    if storage is None:
        return sorted(file for found in _matches(path) for file in _local(found))
    name, fixed = _parts(path)
    return sorted(storage.at(one) for one in _chosen(name, storage.sizes(fixed) or {fixed: 0}))


def sizes_at(path: str, storage: Storage | None) -> dict[str, int]:
    """Return the sizes of the same files. A file has one name, also if links lead to it."""
    if storage is None:
        return {os.path.realpath(one): Path(one).stat().st_size for one in files_at(path, None)}
    name, fixed = _parts(path)
    # An object store lists what is below a name, and not the name itself.
    below = storage.sizes(fixed) or {fixed: storage.sizes(posixpath.dirname(fixed))[fixed]}
    return {storage.at(one): below[one] for one in _chosen(name, below)}


def _parts(path: str) -> tuple[str, str]:
    """Return the name in a remote storage, and what of it comes before a pattern."""
    found = ADDRESS.fullmatch(path)
    name = posixpath.normpath(found[3]) if found else path
    return name, "/".join(_plain_names(name))


def _chosen(name: str, below: Iterable[str]) -> Iterator[str]:
    return (one for one in below if (rest := _rest(name, one)) is not None and not _is_hidden(rest))


def source_query(source: SourceFiles) -> str:
    """Return the query of all rows. Columns of several files are matched by name."""
    if source.kind not in READERS:
        known = ", ".join(READERS)
        raise JobError(
            f"source {source.asset_id!r} has the format {source.kind!r}; without Spark {known} can be read",
            hint=OTHER_WAY,
        )
    options = [text_list(source.files), "union_by_name = true", *_options(source), *_declared(source)]
    reader = f"{READERS[source.kind]}({', '.join(options)})"
    if not source.fields:
        return f"FROM {reader}"
    columns = ", ".join(_cast(field) for field in source.fields)
    return f"SELECT {columns} FROM {reader}"  # noqa: S608 - names and paths are quoted


def _cast(field: Field) -> str:
    name = quoted(field["name"])
    return f"CAST({name} AS {duckdb_type(field['type'])}) AS {name}"


def _declared(source: SourceFiles) -> Iterator[str]:
    """Yield the option that gives declared columns their types while they are read."""
    if source.fields and source.kind != "parquet":
        types = ", ".join(f"{literal(one['name'])}: {literal(duckdb_type(one['type']))}" for one in source.fields)
        yield f"{'types' if source.kind == 'csv' else 'columns'} = {{{types}}}"


def _options(source: SourceFiles) -> Iterator[str]:
    """Yield DuckDB's form of the options. Raise `JobError` for one that it has no form for."""
    given = {name.lower(): value for name, value in source.options.items()}
    if source.kind == "csv":
        given = {**CSV, "sep": given.pop("delimiter", ","), **given}
        yield from STRICT
    known = OPTIONS[source.kind]
    unknown = sorted(name for name in source.options if name.lower() not in known and name.lower() != "delimiter")
    if unknown:
        raise JobError(
            f"source {source.asset_id!r} has the option {unknown[0]!r}, which only Spark understands", hint=OTHER_WAY
        )
    for name, value in given.items():
        yield from known[name](value)


def _text(name: str) -> Callable[[str], Iterable[str]]:
    return lambda value: [f"{name} = {literal(value)}"]


def _flag(name: str, *, when: bool = True) -> Callable[[str], Iterable[str]]:
    return lambda value: [f"{name} = true"] if (value.lower() in TRUE) == when else []


def _nothing(_value: str) -> Iterable[str]:
    return ()


# Only options that mean the same in both. The readers of JSON and Parquet need none of theirs.
OPTIONS: Mapping[str, Mapping[str, Callable[[str], Iterable[str]]]] = {
    "csv": {
        "header": lambda value: [f"header = {'true' if value.lower() in TRUE else 'false'}"],
        "sep": _text("delim"),
        "quote": _text("quote"),
        "escape": _text("escape"),
        "comment": _text("comment"),
        "nullvalue": _text("nullstr"),
        "encoding": _text("encoding"),
        "inferschema": _flag("all_varchar", when=False),
        "multiline": _nothing,
        "enforceschema": _nothing,
    },
    "json": {"multiline": _nothing, "encoding": _nothing},
    "parquet": {"mergeschema": _nothing},
}


def _matches(path: str) -> list[str]:
    return glob.glob(path) if set(path) & PATTERN else [path]  # noqa: PTH207 - the pattern may be absolute


def _local(path: str) -> Iterator[str]:
    """Yield the file, or the files below a directory; names that begin with a dot or an underscore do not count."""
    if not Path(path).is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        yield from (os.path.join(folder, name) for name in names if not _is_hidden(name))  # noqa: PTH118 - a text


def _is_hidden(name: str) -> bool:
    """Return whether Spark leaves a file out. A directory such as `_part=1` is one of a partition."""
    return any(one.startswith((".", "_")) and "=" not in one for one in name.split("/") if one)


def _plain_names(name: str) -> Iterator[str]:
    """Yield the names before the first that is a pattern."""
    for one in name.split("/"):
        if set(one) & PATTERN:
            return
        yield one


def _rest(pattern: str, name: str) -> str | None:
    """Return what is left of a name after the part that matches; None if it does not match."""
    wanted, names = pattern.split("/"), name.split("/")
    if len(names) < len(wanted):
        return None
    matches = all(fnmatch.fnmatchcase(one, want) for one, want in zip(names, wanted, strict=False))
    return "/".join(names[len(wanted) :]) if matches else None
