"""Queries in separate files. They are read when a project is loaded, so that a definition is complete."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from freshline.definitions.loading.document import Document
from freshline.definitions.validation.findings import Findings
from freshline.definitions.validation.problems import Loc, Problem
from freshline.errors import DefinitionError, Place
from freshline.model.json import Json
from freshline.suggest import suggestion

FIELD = "sqlFile"
MAX_BYTES = 500_000
MAX_SIBLINGS = 1_000


def with_sql_files(found: Document, root: Path, findings: Findings) -> Document:
    """Return the document with the content of each `sqlFile` in `sql`, and its path relative to the root.

    Problems of files are added to the findings. Problems of the document are found later by its model.
    """
    if not any(True for _ in _mentions(found.data)):
        return found
    data = deepcopy(found.data)
    for loc, block in _mentions(data):
        if "sql" in block:
            findings.add(found, Problem((*loc, FIELD), f"both 'sql' and '{FIELD}' are given; keep one of them"))
            continue
        try:
            path = _inside(root, Path(found.file).parent, block[FIELD])
            block["sql"] = _text(root / path, path)
            block[FIELD] = path
        except DefinitionError as error:
            problem = Problem((*loc, FIELD), f"'{FIELD}' is {block[FIELD][:200]!r}{error.message}", place=error.place)
            findings.add(found, problem)
    return replace(found, data=data)


def _mentions(data: Any) -> Iterator[tuple[Loc, Json]]:
    """Yield every SQL block that names a file. The document may have other mistakes."""
    steps = data.get("steps") if isinstance(data, dict) else None
    for index, step in enumerate(steps if isinstance(steps, list) else []):
        job = step.get("job") if isinstance(step, dict) else None
        if not isinstance(job, dict) or job.get("kind") != "spark.sql":
            continue
        loc: Loc = ("steps", index, "job")
        outputs = job.get("outputs")
        blocks = (
            [(loc, job), *(((*loc, "outputs", a), b) for a, b in outputs.items())]
            if isinstance(outputs, dict)
            else [(loc, job)]
        )
        for where, block in blocks:
            if isinstance(block, dict) and isinstance(block.get(FIELD), str) and block[FIELD]:
                yield where, block


def _inside(root: Path, beside: Path, given: str) -> str:
    """Return the path relative to the root. Raise `DefinitionError` if it is outside of the project.

    A project is applied from several machines that share nothing else.
    """
    if "\0" in given or Path(given).is_absolute():
        raise DefinitionError("; allowed are paths from the definition's file to a file of the project")
    path = os.path.normpath(beside / given)
    if path.startswith(".."):
        raise DefinitionError("; it leads out of the project's directory, where queries cannot be")
    if not Path(os.path.realpath(root / path)).is_relative_to(os.path.realpath(root)):
        raise DefinitionError("; it is a link that leads out of the project's directory, where queries cannot be")
    return Path(path).as_posix()


def _text(path: Path, name: str) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DefinitionError(f"; {name} is {'a directory' if path.is_dir() else 'not a regular file'}")
        if status.st_size > MAX_BYTES:
            raise DefinitionError(f"; {name} has {status.st_size} bytes; allowed are {MAX_BYTES}")
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DefinitionError(f"; file {name} does not exist{_nearest(path)}") from None
    except UnicodeDecodeError as error:
        raise DefinitionError(f", which is not UTF-8 text: byte {error.start} is wrong", place=Place(name)) from None
    except (OSError, RuntimeError) as error:
        raise DefinitionError(f"; {name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DefinitionError(", which holds the character NUL; remove it", place=Place(name, line))
    if not text.strip():
        raise DefinitionError(", which is empty; write a query into it", place=Place(name))
    return text


def _nearest(path: Path) -> str:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MAX_SIBLINGS), strict=False)]
    except OSError:
        return ""
    return suggestion(path.name, [name for name in names if name.endswith(".sql")])
