"""Compares a project's definitions with the stored catalogue. Pure: no IO."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypedDict

from freshline.definitions.loading.manifest import FILE as MANIFEST
from freshline.definitions.loading.project import LoadedWorkflow, Project
from freshline.definitions.schema.workflow import workflow_json
from freshline.definitions.steps import external_inputs, produced
from freshline.errors import ConflictError, DefinitionError, DefinitionErrors, Place
from freshline.graph import Graph, find_cycle
from freshline.model.json import Json
from freshline.store.alerts.rules import RuleChanges, compare
from freshline.store.db.database import Row

MOST_FILES = 10
OTHER_CODE = "code that its jobs do not execute"
# The parts of a definition that the fingerprint of its jobs covers (docs/semantics.md#R1.2).
_JOB = re.compile(r"steps(\[\d+\](\.(job|consumes)\b.*)?)?$|parameters\b")
_SQL = re.compile(r"steps\[(\d+)\]\.job\.sql$")


class StoredWorkflow(TypedDict):
    """A row of `stored_workflows`."""

    id: int
    slug: str
    project: str
    version: int
    retired: bool
    fingerprint: str
    job_fingerprint: str
    code_hash: str | None
    definition: Json


class StoredAsset(TypedDict):
    """A row of `stored_assets`."""

    id: str
    producer: str | None
    project: str | None
    source_project: str | None
    partitioning: Json | None
    produced: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored catalogue: workflows by slug, assets by id, and edges (asset, consumer)."""

    workflows: Mapping[str, StoredWorkflow]
    assets: Mapping[str, StoredAsset]
    edges: Sequence[tuple[str, str]]
    pools: Mapping[str, int] = field(default_factory=dict)  # of the project
    alerts: Mapping[str, Row] = field(default_factory=dict)  # all rules by name
    code_files: Mapping[str, str] = field(default_factory=dict)  # of the project, with their digests


@dataclass(frozen=True, slots=True)
class SameJob:
    """A stored job that did not change, with its fingerprints by the method before and by this one."""

    workflow_id: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """What apply changes. All lists hold slugs or asset ids, in order."""

    project: str
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    assets_added: list[str] = field(default_factory=list)
    assets_removed: list[str] = field(default_factory=list)
    changes: dict[str, list[str]] = field(default_factory=dict)
    pools: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)  # limits before and after
    reported: list[str] = field(default_factory=list)  # new sources whose data exists
    warnings: list[str] = field(default_factory=list)
    alerts: RuleChanges = field(default_factory=RuleChanges)
    partitions: dict[str, str] = field(default_factory=dict)  # what happens to the partitions of assets, in words
    same_jobs: list[SameJob] = field(default_factory=list)  # jobs whose fingerprint another method computed

    @property
    def empty(self) -> bool:
        """Return whether nothing would change."""
        parts = (self.added, self.changed, self.retired, self.pools, self.reported, self.alerts, self.partitions)
        return not any(parts)

    def as_json(self) -> Json:
        """Return the plan as `freshline apply --json` shows it."""
        return {
            "project": self.project,
            "added": self.added,
            "changed": self.changed,
            "retired": self.retired,
            "unchanged": self.unchanged,
            "assetsAdded": self.assets_added,
            "assetsRemoved": self.assets_removed,
            "changes": self.changes,
            "pools": [{"name": name, "before": old, "after": new} for name, (old, new) in self.pools.items()],
            "reported": self.reported,
            "partitions": self.partitions,
            "alerts": {name: list(getattr(self.alerts, name)) for name in ("added", "changed", "removed")},
            "warnings": self.warnings,
        }


def make_plan(project: Project, stored: Stored, with_data: AbstractSet[str] = frozenset()) -> ApplyPlan:
    """Compare. Raise one error with all clashes with other projects (docs/semantics.md#R10.1).

    `with_data`: the sources whose data exists.
    """
    _refuse_clashes(project, stored)
    alerts = compare(project.name, project.alerts, stored.alerts)
    plan = ApplyPlan(project.name, warnings=list(project.warnings), alerts=alerts)
    code = _ChangedFiles.between(stored.code_files, project.code_files)
    plan.same_jobs.extend(_same_jobs(project, stored))
    for loaded in sorted(project.workflows, key=lambda one: one.definition.slug):
        _compare(plan, loaded, stored, code)
    names = sorted(stored.pools.keys() | project.pools.keys())
    limits = {name: (stored.pools.get(name), project.pools.get(name)) for name in names}
    plan.pools.update({name: (old, new) for name, (old, new) in limits.items() if old != new})
    wanted = {loaded.definition.slug for loaded in project.workflows}
    mine = {slug for slug, row in stored.workflows.items() if row["project"] == project.name and not row["retired"]}
    plan.retired.extend(sorted(mine - wanted))
    before = {asset_id for asset_id, row in stored.assets.items() if row["producer"] in mine}
    after = {asset_id for loaded in project.workflows for asset_id in produced(loaded.definition)}
    plan.assets_added.extend(sorted(after - before))
    plan.assets_removed.extend(sorted(before - after))
    plan.reported.extend(sorted(one for one in with_data if _is_new_source(stored.assets.get(one))))
    return plan


def _is_new_source(row: StoredAsset | None) -> bool:
    """Return whether the asset was not declared as a source before, and has no data yet (docs/semantics.md#R3.5)."""
    return row is None or (row["source_project"] is None and not row["produced"])


def _compare(plan: ApplyPlan, loaded: LoadedWorkflow, stored: Stored, code: _ChangedFiles) -> None:
    slug = loaded.definition.slug
    row = stored.workflows.get(slug)
    if row is None or row["retired"]:
        plan.added.append(slug)
    elif row["fingerprint"] == loaded.fingerprint and _same_job(loaded, row) and row["code_hash"] == loaded.code_hash:
        plan.unchanged.append(slug)
    else:
        plan.changed.append(slug)
        plan.changes[slug] = _differences(loaded, row, code)


def _differences(loaded: LoadedWorkflow, row: StoredWorkflow, code: _ChangedFiles) -> list[str]:
    found = sorted(_paths(row["definition"], workflow_json(loaded.definition), ""))
    if row["code_hash"] == loaded.code_hash:
        return found
    if _same_job(loaded, row):
        return found or [OTHER_CODE]
    names = code.of(loaded)
    more = len(names) - MOST_FILES
    files = names if more <= 0 else [*names[:MOST_FILES], f"{more} more Python files"]
    return [*found, *(files or (["Python code"] if loaded.code_hash else []))]


def _same_jobs(project: Project, stored: Stored) -> Iterator[SameJob]:
    for loaded in project.workflows:
        row = stored.workflows.get(loaded.definition.slug)
        if row and row["job_fingerprint"] == loaded.former_fingerprint != loaded.job_fingerprint:
            yield SameJob(row["id"], row["job_fingerprint"], loaded.job_fingerprint)


def _same_job(loaded: LoadedWorkflow, row: StoredWorkflow) -> bool:
    return row["job_fingerprint"] in {loaded.job_fingerprint, loaded.former_fingerprint}


@dataclass(frozen=True, slots=True)
class _ChangedFiles:
    """The Python files that differ from those of the last apply, and those that no job executes any more."""

    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    @classmethod
    def between(cls, before: Mapping[str, str], after: Mapping[str, str]) -> _ChangedFiles:
        """Compare digests; nothing is known of those of another method."""
        if before.get("") != after.get(""):
            return cls()
        changed = frozenset(name for name in after if before.get(name) != after[name])
        return cls(changed, frozenset(before.keys() - after.keys()))

    def of(self, loaded: LoadedWorkflow) -> list[str]:
        """Return those that a workflow's jobs execute, or may have executed."""
        return sorted((self.changed & loaded.files) | self.gone)


def job_changes(loaded: LoadedWorkflow, changes: Sequence[str]) -> list[str]:
    """Return which of the changes concern the jobs: files as they are, fields of the definition with their file."""
    steps = workflow_json(loaded.definition)["steps"]
    fields = [one for one in changes if one.startswith(("steps", "parameters")) and not one.endswith(".py")]
    files = [one for one in changes if one not in fields and (one.endswith(".py") or "Python" in one)]
    return [_in_file(loaded, steps, one) for one in fields if _JOB.match(one)] + files


def _in_file(loaded: LoadedWorkflow, steps: Sequence[Json], field: str) -> str:
    found = _SQL.match(field)
    file = steps[int(found[1])]["job"].get("sqlFile") if found else None
    return str(file) if file else f"{loaded.place.file}: {field}"


def _paths(old: Any, new: Any, path: str) -> set[str]:
    """Return the paths at which two JSON documents differ."""
    if old == new:
        return set()
    if isinstance(old, dict) and isinstance(new, dict):
        return set().union(
            *(_paths(old.get(k), new.get(k), f"{path}.{k}".lstrip(".")) for k in old.keys() | new.keys())
        )
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return set().union(*(_paths(o, n, f"{path}[{i}]") for i, (o, n) in enumerate(zip(old, new, strict=True))))
    return {path}


def reshaped(loaded: Sequence[LoadedWorkflow], stored: Stored) -> list[str]:
    """Return the workflows among these that read or produce other assets than before. Removals do not matter."""
    read: dict[str, set[str]] = defaultdict(set)
    made: dict[str, set[str]] = defaultdict(set)
    for asset_id, slug in stored.edges:
        read[slug].add(asset_id)
    for asset_id, row in stored.assets.items():
        if row["producer"]:
            made[row["producer"]].add(asset_id)
    found = []
    for definition in (one.definition for one in loaded):
        reads = {item.asset_id for item in external_inputs(definition)}
        if (reads, {*produced(definition)}) != (read[definition.slug], made[definition.slug]):
            found.append(definition.slug)
    return found


def _refuse_clashes(project: Project, stored: Stored) -> None:
    errors = [*_slug_clashes(project, stored), *_asset_clashes(project, stored)]
    if errors:
        raise DefinitionErrors([*_same_project(project, stored), *errors])
    graph = proposed_graph(project, stored)
    following: dict[str, set[str]] = defaultdict(set)
    for number, slug in graph.slugs.items():
        for parent in graph.parents(number):
            following[graph.slugs[parent]].add(slug)
    cycle = find_cycle(following)
    if cycle:
        raise ConflictError(f"workflows of several projects wait for each other: {' -> '.join(cycle)}")


def _same_project(project: Project, stored: Stored) -> list[DefinitionError]:
    """Return what to do if this may be a stored project under another name: a clone, or a directory that was moved."""
    rows = [row for loaded in project.workflows if (row := stored.workflows.get(loaded.definition.slug))]
    owners = {row["project"] for row in rows if not row["retired"]}
    mine = any(row["project"] == project.name for row in stored.workflows.values())
    if mine or len(owners) != 1:
        return []
    (owner,) = owners
    text = f"project '{project.name}' is new, and its workflows belong to project '{owner}'"
    stated = "" if project.named else f"; without 'name' in {MANIFEST} a project is called like its directory"
    use, change = f'`name = "{owner}"` in {MANIFEST}', f"`freshline project rename {owner} {project.name}`"
    hint = f"if it is the same project, write {use}, or rename the stored one with {change}"
    return [DefinitionError(text + stated, place=Place(MANIFEST), hint=hint)]


def _slug_clashes(project: Project, stored: Stored) -> list[DefinitionError]:
    return [
        DefinitionError(
            f"workflow '{loaded.definition.slug}' belongs to project '{row['project']}'; slugs are global",
            place=loaded.place,
            hint="choose another slug",
        )
        for loaded in project.workflows
        if (row := stored.workflows.get(loaded.definition.slug))
        and row["project"] != project.name
        and not row["retired"]
    ]


def _asset_clashes(project: Project, stored: Stored) -> list[DefinitionError]:
    by_case = {asset_id.lower(): asset_id for asset_id in stored.assets}
    errors = []
    for asset_id, (place, consumed) in _places(project).items():
        row = stored.assets.get(asset_id)
        known = by_case.get(asset_id.lower(), asset_id)
        if known != asset_id:
            text = f"asset '{asset_id}' differs from the stored asset '{known}' only in case"
            errors.append(DefinitionError(text, place=place, hint=f"use '{known}'"))
        if row is None or consumed:
            continue
        if row["producer"] and row["project"] != project.name:
            text = f"asset '{asset_id}' is produced by workflow '{row['producer']}' of project '{row['project']}'"
            errors.append(DefinitionError(text, place=place, hint="an asset has one producer"))
        elif row["source_project"] not in {None, project.name}:
            text = f"source '{asset_id}' is declared by project '{row['source_project']}'"
            errors.append(DefinitionError(text, place=place, hint="it has to be removed there first"))
    return errors


def _places(project: Project) -> dict[str, tuple[Place, bool]]:
    """Return for each asset where it is declared, or else where it is consumed, and whether only consumed."""
    found: dict[str, tuple[Place, bool]] = {}
    for loaded in project.workflows:
        for item in external_inputs(loaded.definition):
            found.setdefault(item.asset_id, (loaded.place, True))
    for source in project.sources:
        found[source.definition.asset_id] = (source.place, False)
    for loaded in project.workflows:
        found |= dict.fromkeys(produced(loaded.definition), (loaded.place, False))
    return found


def proposed_graph(project: Project, stored: Stored) -> Graph:
    """Return the graph of all projects after the apply. It has its own numbers, as added workflows have no id yet."""
    own = {loaded.definition.slug for loaded in project.workflows}
    makers = {
        asset_id: row["producer"]
        for asset_id, row in stored.assets.items()
        if row["producer"] and row["project"] != project.name
    }
    edges = [
        (asset_id, slug)
        for asset_id, slug in stored.edges
        if stored.workflows[slug]["project"] != project.name and slug not in own
    ]
    for loaded in project.workflows:
        slug = loaded.definition.slug
        makers |= dict.fromkeys(produced(loaded.definition), slug)
        edges.extend((item.asset_id, slug) for item in external_inputs(loaded.definition))
    slugs = sorted(own.union(makers.values(), (slug for _, slug in edges)))
    numbers = {slug: number for number, slug in enumerate(slugs, start=1)}
    return Graph(
        epoch=0,
        slugs={number: slug for slug, number in numbers.items()},
        producers={asset_id: numbers[slug] for asset_id, slug in makers.items()},
        edges=[(asset_id, numbers[slug]) for asset_id, slug in edges],
    )
