"""Find the asset, workflow, run, event or decision that a user named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from shlex import quote
from uuid import UUID

from freshline.errors import NotFoundError, UsageError
from freshline.model.documents.asset import FoundAsset, FoundWorkflow, ResolvedAsset
from freshline.model.documents.watch import Watch
from freshline.model.json import Json
from freshline.partitions import document
from freshline.partitions.keys import shown
from freshline.store.read.session import ReadSession
from freshline.suggest import did_you_mean, hint
from freshline.unmatched import as_regex, is_pattern

SHORTEST_SUFFIX = 6
PartitionKey = str | Mapping[str, str]
_RUN_ID = re.compile(rf"[0-9a-f]{{{SHORTEST_SUFFIX},32}}")


def asset(session: ReadSession, asset_id: str) -> ResolvedAsset:
    """Return the asset with this id. Raise NotFoundError with similar names if it does not exist."""
    if rows := session.documents(ResolvedAsset, "asset", asset=asset_id):
        return rows[0]
    raise unknown_name("asset", asset_id, (row["assetId"] for row in session.rows("asset_names")))


def partition_key(
    session: ReadSession, given: PartitionKey | None, asset_id: str | None, slug: str | None
) -> str | None:
    """Return the canonical key of a partition of an asset or a workflow that a user named; None for None.

    Raise UsageError if nothing has such a partition. The partition need not exist yet.
    """
    if given is None:
        return None
    if asset_id is not None:
        found = asset(session, asset_id)
        newest = None if given or found["partitioning"] is None else _newest(session, asset_id)
        return parse_partition(f"asset '{asset_id}'", found["partitioning"], given, newest=newest)
    if slug is None:
        raise UsageError("a partition key belongs to an asset or a workflow; name one of them too")
    workflow_id(session, slug)
    rows = session.rows("workflow_partitioning", slug=slug)
    return parse_partition(f"workflow '{slug}'", rows[0]["partitioning"] if rows else None, given)


def _newest(session: ReadSession, asset_id: str) -> str | None:
    """Return the newest partition of an asset, for an error."""
    from freshline.store.read.partitions import Partitions  # noqa: PLC0415 - it loads the graph

    return Partitions().at(session).newest([asset_id]).get(asset_id) or None


def parse_partition(what: str, partitioning: Json | None, given: PartitionKey, *, newest: str | None = None) -> str:
    """Return the canonical key of a partition. `what` names its asset or workflow in errors, `newest` one to name."""
    if partitioning is None:
        if given:
            raise UsageError(f"{what} has no partitions, so it has no partition {shown(str(given))}")
        return ""
    known = document.from_json(partitioning)
    if not given:
        which = f"; the newest is {newest}" if newest else ""
        raise UsageError(
            f"{what} has partitions, and none is named{which}",
            hint=f"name one: --partition {quote(newest or known.example)}",
        )
    return known.parse(given)


def watch(session: ReadSession, asset_id: str) -> Watch:
    """Return the watch of a source. Raise NotFoundError if it has none."""
    asset(session, asset_id)
    if rows := session.documents(Watch, "watches", asset=asset_id, limit=1, after=None):
        return rows[0]
    raise NotFoundError(
        f"source '{asset_id}' has no watch", hint="add `watch` to it in sources/, and run `freshline apply`"
    )


def workflow_id(session: ReadSession, slug: str | None) -> int | None:
    """Return the id of the workflow with this slug; None for None."""
    if slug is None:
        return None
    if rows := session.rows("workflow", slug=slug):
        return int(rows[0]["id"])
    raise unknown_name("workflow", slug, (row["slug"] for row in session.rows("workflow_names")))


def asset_or_workflow(session: ReadSession, name: str) -> FoundAsset | FoundWorkflow:
    """Return the asset with this name, else the workflow `{slug}`."""
    if rows := session.documents(ResolvedAsset, "asset", asset=name):
        return rows[0]
    if found := session.rows("workflow", slug=name):
        return {"slug": found[0]["slug"]}
    assets = [row["assetId"] for row in session.rows("asset_names")]
    slugs = [row["slug"] for row in session.rows("workflow_names")]
    raise unknown_name("asset or workflow", name, assets + slugs)


def run_id(session: ReadSession, text: str) -> str:
    """Return the full id of a run from its id or a unique suffix.

    A suffix and not a prefix: an id begins with the time, so ids of the same moment differ only at the end.
    """
    suffix = text.replace("-", "").lower()
    if not _RUN_ID.fullmatch(suffix):
        raise UsageError(f"{text!r} is not a run id; give the id, or at least its last {SHORTEST_SUFFIX} hex digits")
    found = [str(row["id"]) for row in session.rows("run_ids_by_suffix", suffix=suffix)]
    if not found:
        raise NotFoundError(f"no run has the id {text!r}", hint="`freshline runs` lists them")
    if len(found) > 1:
        raise UsageError(f"several runs end with {text!r}: {', '.join(found)}; give more of the id")
    return found[0]


def event(session: ReadSession, text: str) -> Json:
    """Return the event with this id or position."""
    if text.isdecimal():
        rows = session.rows("event_by_position", position=int(text))
    else:
        wanted = parse_uuid(text, "an event's id or position")
        # The log has no index by id. An id begins with its creation time in milliseconds, close to the event's time.
        created = wanted.int >> 80
        rows = session.rows("event_near", id=wanted, made=created) or session.rows("event_by_id", id=wanted)
    if not rows:
        raise NotFoundError(f"no event has the id or position {text!r}", hint="`freshline events` lists them")
    return rows[0]


def decision_id(session: ReadSession, text: str) -> UUID:
    """Return the id of a stored decision."""
    wanted = parse_uuid(text, "a decision's id")
    if not session.rows("decision_by_id", id=wanted):
        raise NotFoundError(f"no decision has the id {text!r}", hint="`freshline decisions` lists them")
    return wanted


def scope(session: ReadSession, name: str | None) -> tuple[list[str] | None, list[str] | None]:
    """Return the assets and the slugs that a name, or a pattern such as `sales.*`, stands for; None for all."""
    if name is None:
        return None, None
    if is_pattern(name):
        return _matching(session, name)
    found = asset_or_workflow(session, name)
    if "slug" in found:
        return [row["id"] for row in session.rows("assets_of", slug=found["slug"])], [found["slug"]]
    return [found["assetId"]], [found["workflowSlug"]] if found["workflowSlug"] else []


def _matching(session: ReadSession, pattern: str) -> tuple[list[str], list[str]]:
    """Return the assets that a pattern matches, and their workflows."""
    found = matching_assets(session, pattern)
    return [row["assetId"] for row in found], sorted({row["workflowSlug"] for row in found if row["workflowSlug"]})


def matching_assets(session: ReadSession, pattern: str, project: str | None = None) -> list[Json]:
    """Return the assets that a pattern matches. Raise NotFoundError with similar names if there is none."""
    if found := session.rows("matching_assets", pattern=as_regex(pattern), project=project):
        return found
    names = [row["assetId"] for row in session.rows("matching_assets", pattern=None, project=project)]
    of = f" of project {project!r}" if project else ""
    raise NotFoundError(f"no asset{of} matches {pattern!r}", hint=hint(pattern.strip("*."), names))


def matching_workflows(session: ReadSession, pattern: str, project: str | None = None) -> list[Json]:
    """Return the workflows whose slugs a pattern matches. Raise NotFoundError with similar names if there is none."""
    if found := session.rows("matching_workflows", pattern=as_regex(pattern), project=project):
        return found
    slugs = [row["slug"] for row in session.rows("matching_workflows", pattern=None, project=project)]
    of = f" of project {project!r}" if project else ""
    raise NotFoundError(f"no workflow{of} matches {pattern!r}", hint=hint(pattern.strip("*-"), slugs))


def project(session: ReadSession, name: str | None) -> None:
    """Raise NotFoundError with similar names if a project does not exist."""
    if name is not None:
        names = [row["name"] for row in session.rows("project_names")]
        if name not in names:
            raise NotFoundError(f"project {name!r} does not exist", hint=hint(name, names))


def subjects(session: ReadSession, subject: str | None, asset_id: str | None) -> list[str] | None:
    """Return the subjects of events to read, of names that are not patterns; None for all."""
    if asset_id is None:
        return None if subject is None else [subject]
    slug = asset(session, asset_id)["workflowSlug"]
    return [asset_id] if slug is None else [asset_id, slug]


def unknown_name(kind: str, name: str, known: Iterable[str], *, listed_by: str | None = None) -> NotFoundError:
    """Return the error for a name that does not exist, with the most similar known names.

    `listed_by`: the command that lists them, if they are neither assets nor workflows.
    """
    names = sorted(set(known))
    other = "`freshline status` lists what there is" if names else "nothing is applied yet; `freshline apply` does that"
    other = f"`{listed_by}` shows them" if listed_by else other
    return NotFoundError(f"{kind} {name!r} does not exist", hint=did_you_mean(name, names, most=3) or other)


def parse_uuid(text: str, what: str) -> UUID:
    """Parse an id that a user gave. The error says that it is not `what`."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{text!r} is not {what}") from None
