"""Consistency checks between all workflows and sources of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.steps import external_inputs
from freshline.definitions.validation.draft import Draft
from freshline.definitions.validation.findings import Findings, Origin
from freshline.definitions.validation.partitions import check_partitions
from freshline.definitions.validation.problems import Loc, Problem
from freshline.suggest import suggestion

MAX_CYCLES = 20
MAX_HINTS = 50
_INCREMENTS = (
    "is read with 'rows: new', but each report of this source replaces its data: all rows are new every time, and a "
    "version that is replaced before a run reads it is lost; if each report adds data, declare 'mode: append' for the "
    "source"
)

_REBUILD = (
    "is 'rebuild', but the input {!r} holds only its newest version: once the table has rows of other versions, a "
    "change of the code does not rebuild it by itself, because these rows would be lost; it asks instead"
)


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention of an asset in a definition."""

    asset_id: str
    origin: Origin
    loc: Loc
    slug: str = ""


def check_references(
    workflows: list[Draft[Workflow]],
    sources: list[Draft[Source]],
    known: Iterable[str],
    findings: Findings,
    *,
    strict: bool,
) -> None:
    """Find duplicate slugs, producers and sources, ids that differ only in case, undeclared inputs and cycles.

    Also what partitions of different definitions contradict.

    `known`: all assets that a definition produces or declares as a source, even if it has other errors.
    """
    produced = [m for draft in workflows for m in _produced(draft)]
    declared = [Mention(d.definition.asset_id, d.origin, ("assetId",)) for d in sources]
    consumed = [m for draft in workflows for m in _consumed(draft)]
    _slugs(workflows, findings)
    _producers(produced, declared, findings)
    _cases([*produced, *declared, *consumed], findings)
    _undeclared(consumed, set(known), findings, strict=strict)
    _increments_of_snapshots(workflows, sources, findings)
    _rebuilds_of_snapshots(workflows, sources, findings)
    check_partitions(workflows, sources, findings)
    _cycles(workflows, produced, findings)


def _produced(draft: Draft[Workflow]) -> Iterator[Mention]:
    for s, step in enumerate(draft.definition.steps):
        for p, output in enumerate(step.produces):
            yield Mention(output.asset_id, draft.origin, ("steps", s, "produces", p, "assetId"), draft.definition.slug)


def _consumed(draft: Draft[Workflow]) -> Iterator[Mention]:
    for s, step in enumerate(draft.definition.steps):
        for c, item in enumerate(step.consumes):
            yield Mention(item.asset_id, draft.origin, ("steps", s, "consumes", c, "assetId"), draft.definition.slug)


def _slugs(workflows: list[Draft[Workflow]], findings: Findings) -> None:
    first: dict[str, Origin] = {}
    for draft in workflows:
        slug = draft.definition.slug
        other = first.setdefault(slug, draft.origin)
        if other is not draft.origin:
            problem = Problem(("slug",), f"slug {slug!r} is taken by another workflow; choose another")
            findings.add(draft.origin, problem, see=other.place(("slug",)))


def _producers(produced: list[Mention], declared: list[Mention], findings: Findings) -> None:
    makers: dict[str, Mention] = {}
    for mention in produced:
        other = makers.setdefault(mention.asset_id, mention)
        if other.origin is not mention.origin:
            message = f"is produced by {other.slug!r} and by {mention.slug!r}; an asset has one producer"
            findings.add(mention.origin, Problem(mention.loc, message), see=other.origin.place(other.loc))
    sources: dict[str, Mention] = {}
    for mention in declared:
        other = sources.setdefault(mention.asset_id, mention)
        if other is not mention:
            problem = Problem(mention.loc, "is declared as a source twice; keep one")
            findings.add(mention.origin, problem, see=other.origin.place(other.loc))
        elif mention.asset_id in makers:
            maker = makers[mention.asset_id]
            problem = Problem(mention.loc, f"is a source, but workflow {maker.slug!r} produces it; remove one of them")
            findings.add(mention.origin, problem, see=maker.origin.place(maker.loc))


def _cases(mentions: list[Mention], findings: Findings) -> None:
    first: dict[str, Mention] = {}
    reported: set[str] = set()
    for mention in mentions:
        other = first.setdefault(mention.asset_id.lower(), mention)
        if other.asset_id != mention.asset_id and mention.asset_id not in reported:
            reported.add(mention.asset_id)
            problem = Problem(mention.loc, f"differs from {other.asset_id!r} only in case; write both the same")
            findings.add(mention.origin, problem, see=other.origin.place(other.loc))


def _undeclared(consumed: list[Mention], known: set[str], findings: Findings, *, strict: bool) -> None:
    folded = {asset_id.lower() for asset_id in known}
    hints: dict[str, str] = {}
    for mention in consumed:
        asset_id = mention.asset_id
        if asset_id.lower() in folded:
            continue
        if asset_id not in hints:
            # Each search compares all assets. With many undeclared inputs, the cause is not a typing mistake.
            near = suggestion(asset_id, known) if len(hints) < MAX_HINTS else ""
            hints[asset_id] = near or "; declare it in sources/*.yaml"
        message = f"is neither produced nor a declared source{hints[asset_id]}"
        findings.add(mention.origin, Problem(mention.loc, message, warning=not strict))


def _increments_of_snapshots(
    workflows: list[Draft[Workflow]], sources: list[Draft[Source]], findings: Findings
) -> None:
    """Warn about `rows: new` of a source that has no increments, because each report replaces its data."""
    replaced = {draft.definition.asset_id: draft.origin for draft in sources if draft.definition.mode == "snapshot"}
    for draft in workflows:
        for s, step in enumerate(draft.definition.steps):
            for c, item in enumerate(step.consumes):
                if item.rows == "new" and item.asset_id in replaced:
                    problem = Problem(("steps", s, "consumes", c, "rows"), _INCREMENTS, warning=True)
                    findings.add(draft.origin, problem, see=replaced[item.asset_id].place(("assetId",)))


def _rebuilds_of_snapshots(workflows: list[Draft[Workflow]], sources: list[Draft[Source]], findings: Findings) -> None:
    """Warn about `onCodeChange: rebuild` of tables whose inputs hold only their newest version."""
    forgetful = {draft.definition.asset_id for draft in sources if draft.definition.mode == "snapshot"}
    steps = [(draft, s, step) for draft in workflows for s, step in enumerate(draft.definition.steps)]
    for _, _, step in steps:
        forgetful |= {one.asset_id for one in step.produces if one.table is None or one.table.mode != "append"}
    for draft, s, step in steps:
        read = [item for item in step.consumes if item.rows == "new"] or step.consumes
        found = sorted({item.asset_id for item in read} & forgetful)
        for p, output in enumerate(step.produces if found else ()):
            if output.table and output.table.on_code_change == "rebuild":
                loc = ("steps", s, "produces", p, "table", "onCodeChange")
                findings.add(draft.origin, Problem(loc, _REBUILD.format(found[0]), warning=True))


def _cycles(workflows: list[Draft[Workflow]], produced: list[Mention], findings: Findings) -> None:
    drafts = {draft.definition.slug: draft for draft in workflows}
    makers = {mention.asset_id: mention.slug for mention in produced}
    before = {
        slug: {makers[item.asset_id] for item in external_inputs(drafts[slug].definition) if item.asset_id in makers}
        for slug in sorted(drafts)
    }
    for _ in range(MAX_CYCLES):
        try:
            TopologicalSorter({slug: sorted(names) for slug, names in before.items()}).prepare()
        except CycleError as error:
            path = _from_smallest(error.args[1])
            _add_cycle(path, drafts, findings)
            before[path[1]].discard(path[0])
        else:
            return


def _from_smallest(cycle: list[str]) -> list[str]:
    ring = cycle[:-1]
    start = ring.index(min(ring))
    return [*ring[start:], *ring[:start], ring[start]]


def _add_cycle(path: list[str], drafts: dict[str, Draft[Workflow]], findings: Findings) -> None:
    others = ", ".join(f"{slug} at {drafts[slug].origin.place()}" for slug in path[1:-1][:10])
    message = f"workflows wait for each other: {' -> '.join(path)}; remove one of these dependencies"
    origin = drafts[path[0]].origin
    findings.add(origin, Problem((), f"{message}; {others}"))


__all__ = ["Draft", "Mention", "check_references"]
