"""Loads and checks a whole project directory. No database is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from freshline.definitions.alerts import alert_warnings
from freshline.definitions.code import Code, read_code
from freshline.definitions.fingerprint import definition_fingerprint, former_fingerprint, job_fingerprint, needs_code
from freshline.definitions.loading import document
from freshline.definitions.loading.job_code import JobCode
from freshline.definitions.loading.manifest import FILE, read_manifest
from freshline.definitions.loading.modules import decorated_functions, workflow_origins
from freshline.definitions.names import view_of
from freshline.definitions.partition_edges import PartitionEdges, resolve
from freshline.definitions.policy import compile_policy
from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.sql.files import with_sql_files
from freshline.definitions.sql.lint import sql_problems
from freshline.definitions.sql.partition_parameters import parameter_problems
from freshline.definitions.steps import declared_partitioning, partitionings
from freshline.definitions.validation.consistency import inconsistencies
from freshline.definitions.validation.draft import Draft
from freshline.definitions.validation.entrypoints import EntryPoints
from freshline.definitions.validation.findings import Findings, Origin
from freshline.definitions.validation.problems import Problem, explain, show
from freshline.definitions.validation.references import check_references
from freshline.definitions.validation.watches import watch_problems
from freshline.errors import DefinitionError, Place
from freshline.model.alerts import AlertRule
from freshline.model.allowed_paths import AllowedPaths, base, default, prefix
from freshline.model.json import Json
from freshline.model.policy import Policy
from freshline.partitions import Partitioning
from freshline.suggest import suggestion

_TEXTS = (".yaml", ".yml", ".json")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
Definition = TypeVar("Definition", Workflow, Source)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a project. `definitions`: documents in each of its two directories."""

    file_bytes: int = 1024 * 1024
    definitions: int = 10_000


@dataclass(frozen=True)
class LoadedWorkflow:
    """A valid workflow with its place, compiled policy and fingerprints.

    `former_fingerprint`: of the same job by the method before. `files`: the Python files that its jobs execute.
    `reads`: where it consumes each asset.
    """

    definition: Workflow
    place: Place
    policy: Policy
    fingerprint: str
    job_fingerprint: str
    code_hash: str | None
    former_fingerprint: str | None = None
    files: AbstractSet[str] = frozenset()
    reads: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedSource:
    """A valid source and its place."""

    definition: Source
    place: Place


@dataclass(frozen=True)
class Project:
    """All definitions of a project directory. `named`: `freshline.toml` states the name, not the directory."""

    root: Path
    name: str
    code_hash: str
    workflows: tuple[LoadedWorkflow, ...]
    sources: tuple[LoadedSource, ...]
    warnings: tuple[str, ...]
    pools: Mapping[str, int] = field(default_factory=dict)
    named: bool = True
    alerts: tuple[AlertRule, ...] = ()
    code_files: Mapping[str, str] = field(default_factory=dict)  # digests of those that jobs execute

    def source_location(self, source: Source) -> Json | None:
        """Return the location of a source with an absolute path or URL; None if it declares no path."""
        return _location(self.root, source)

    def allowed_paths(self, source: Source) -> AllowedPaths:
        """Return what reports of a source may name: its own path, and what it declares (docs/semantics.md#R3.1)."""
        return _allowed_paths(self.root, source)

    def partition_edges(self, stored: Mapping[str, Partitioning]) -> PartitionEdges:
        """Resolve which partitions of its inputs every workflow reads.

        `stored`: the partitions of assets of other projects, also of those without partitions. Loading has resolved
        the edges within the project already; a refused edge here leads to another project.
        """
        known = {**stored, **partitionings(w.definition for w in self.workflows)}
        known |= {s.definition.asset_id: declared_partitioning(s.definition) for s in self.sources}
        return resolve({w.definition.slug: w.policy for w in self.workflows}, known)


def load_project(root: Path, *, strict: bool = False, limits: Limits | None = None) -> Project:
    """Load the project in the directory `root`.

    Raise `DefinitionErrors` with all mistakes, each with its file and line. `strict`: a consumed asset that is neither
    produced nor a declared source is an error instead of a warning (docs/semantics.md#R3.2).
    """
    root = root.expanduser().resolve()
    manifest = read_manifest(root)
    findings = Findings()
    code = _code(root, findings)  # read once: what is hashed is what is imported
    reader = _Reader(root, limits or Limits(), findings)
    entries = [entry for found in reader.documents("sources", deep=False) for entry in _entries(found)]
    documents = reader.documents("workflows", deep=True)
    origins: list[Origin] = [with_sql_files(found, root, findings) for found in documents]
    functions = decorated_functions(root, code, findings)
    known = {*_named(origins), *(e.data["assetId"] for e in entries if _names_asset(e.data))}
    known |= {function.asset_id for function in functions if isinstance(function.asset_id, str)}
    origins += workflow_origins(functions, known, findings)
    sources = [source for entry in entries if (source := draft_of(Source, entry, findings))]
    workflows = [workflow for origin in origins if (workflow := draft_of(Workflow, origin, findings))]
    entrypoints = EntryPoints(root, code)
    _check(entrypoints, workflows, known, findings)
    _check_watches(root, entrypoints, sources, findings)
    _check_pools(workflows, manifest.pools, findings)
    check_references(workflows, sources, known, findings, strict=strict)
    findings.raise_errors()
    findings.warnings += alert_warnings(manifest.alerts, known, FILE)
    jobs = JobCode(code, [draft.definition for draft in workflows])
    findings.warnings += jobs.warnings()
    loaded = [_loaded(draft, code.hash, jobs) for draft in workflows]
    return Project(
        root=root,
        name=manifest.name,
        code_hash=code.hash,
        workflows=tuple(sorted(loaded, key=lambda one: one.definition.slug)),
        sources=tuple(LoadedSource(d.definition, d.origin.place()) for d in sources),
        warnings=findings.warning_texts(),
        pools=manifest.pools,
        named=manifest.named,
        alerts=manifest.alerts,
        code_files=jobs.digests(),
    )


class _Reader:
    """Reads the files of a project within its limits."""

    def __init__(self, root: Path, limits: Limits, findings: Findings) -> None:
        self._root = root
        self._limits = limits
        self._findings = findings

    def documents(self, directory: str, *, deep: bool) -> Iterator[document.Document]:
        count = 0
        for path in files(self._root / directory, _TEXTS, deep=deep):
            for found in self._parse(path):
                count += 1
                if count > self._limits.definitions:
                    message = f"more than {self._limits.definitions} definitions in {directory}/; split the project"
                    self._findings.errors.append(DefinitionError(message, place=found.place()))
                    return
                yield found

    def _parse(self, path: Path) -> list[document.Document]:
        name = path.relative_to(self._root).as_posix()
        try:
            return document.parse(self._text(path, name), name)
        except DefinitionError as error:
            self._findings.errors.append(error)
            return []

    def _text(self, path: Path, name: str) -> str:
        try:
            size = path.stat().st_size
            if size > self._limits.file_bytes:
                allowed = f"allowed are {self._limits.file_bytes}"
                raise DefinitionError(f"the file has {size} bytes; {allowed}; split it", place=Place(name))
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise DefinitionError(f"is not UTF-8 text: byte {error.start} is wrong", place=Place(name)) from None
        except OSError as error:
            raise DefinitionError(f"cannot be read: {error.strerror}", place=Place(name)) from None


def files(directory: Path, suffixes: tuple[str, ...], *, deep: bool) -> list[Path]:
    """Return the files below a directory with one of the suffixes, sorted, without hidden ones."""
    found = directory.rglob("*") if deep else directory.glob("*")
    return sorted(
        path
        for path in found
        if path.suffix in suffixes
        and path.is_file()
        and not any(part.startswith((".", "__pycache__")) for part in path.relative_to(directory).parts)
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """One source of a list in a document."""

    data: Any
    document: document.Document
    index: int

    def place(self, loc: tuple[str | int, ...] = ()) -> Place:
        return self.document.place((self.index, *loc))


def _entries(found: document.Document) -> list[Origin]:
    if isinstance(found.data, list):
        return [_Entry(data, found, index) for index, data in enumerate(found.data)]
    return [found]


def draft_of(model: type[Definition], origin: Origin, findings: Findings) -> Draft[Definition] | None:
    """Validate one definition. Return None and add to the findings if it has mistakes."""
    if not isinstance(origin.data, dict):
        message = f"is {show(origin.data)}; a {model.__name__.lower()} is a block of fields"
        findings.add(origin, Problem((), message))
        return None
    try:
        return Draft(model.model_validate(origin.data), origin)
    except ValidationError as error:
        for problem in explain(model, error, origin.data):
            findings.add(origin, problem)
        return None


def _check(
    entrypoints: EntryPoints, workflows: list[Draft[Workflow]], known: AbstractSet[str], findings: Findings
) -> None:
    views = {view_of(asset_id).lower(): asset_id for asset_id in sorted(known)}
    for draft in workflows:
        workflow = draft.definition
        for problem in chain(
            inconsistencies(workflow),
            sql_problems(workflow, views),
            parameter_problems(workflow),
            entrypoints.problems(workflow),
        ):
            findings.add(draft.origin, problem)


def _location(root: Path, source: Source) -> Json | None:
    if source.path is None:
        return None
    path = source.path if _URL.match(source.path) else os.path.normpath(root / source.path)
    options = {"options": dict(source.options)} if source.options else {}
    return {"format": source.format, "path": path, **options}


def _allowed_paths(root: Path, source: Source) -> AllowedPaths:
    location = _location(root, source)
    if source.allow is None:
        return default(str(root), location["path"] if location else None)
    own = base(location["path"], str(root)) if location else ()
    return AllowedPaths(str(root), (*own, *(prefix(one, str(root)) for one in source.allow)))


def _check_watches(root: Path, entrypoints: EntryPoints, sources: list[Draft[Source]], findings: Findings) -> None:
    for draft in sources:
        source = draft.definition
        for problem in chain(entrypoints.source_problems(source), watch_problems(source, _allowed_paths(root, source))):
            findings.add(draft.origin, problem)


def _check_pools(workflows: list[Draft[Workflow]], pools: Mapping[str, int], findings: Findings) -> None:
    for draft in workflows:
        name = draft.definition.pool
        if name is not None and name not in pools:
            allowed = f"known are {', '.join(sorted(pools)[:20])}" if pools else "it has none"
            hint = suggestion(name, pools) or f"; {allowed}; add it under [pools] with its limit"
            findings.add(draft.origin, Problem(("pool",), f"'pool' names {name!r}, which {FILE} does not{hint}"))


def _named(origins: list[Origin]) -> Iterator[str]:
    """Yield the assets that documents produce. Documents with mistakes count too, so that one causes no others."""
    for found in origins:
        steps = found.data.get("steps") if isinstance(found.data, dict) else None
        for step in steps if isinstance(steps, list) else []:
            outputs = step.get("produces") if isinstance(step, dict) else None
            for output in outputs if isinstance(outputs, list) else []:
                if _names_asset(output):
                    yield output["assetId"]


def _names_asset(data: object) -> bool:
    return isinstance(data, dict) and isinstance(data.get("assetId"), str)


def _code(root: Path, findings: Findings) -> Code:
    try:
        return read_code(root)
    except DefinitionError as error:
        findings.errors.append(error)
        findings.raise_errors()
        raise


def _loaded(draft: Draft[Workflow], code: str, jobs: JobCode) -> LoadedWorkflow:
    workflow = draft.definition
    return LoadedWorkflow(
        definition=workflow,
        place=draft.origin.place(),
        policy=compile_policy(workflow),
        fingerprint=definition_fingerprint(workflow),
        job_fingerprint=job_fingerprint(workflow, jobs.fingerprint),
        code_hash=code if needs_code(workflow) else None,
        former_fingerprint=former_fingerprint(workflow, code),
        files=jobs.files(workflow),
        reads={
            item.asset_id: draft.origin.place(("steps", s, "consumes", c))
            for s, step in enumerate(workflow.steps)
            for c, item in enumerate(step.consumes)
        },
    )
