"""What the filters of a listing stand for: names, patterns such as `sales.*`, and a project."""

from __future__ import annotations

from collections.abc import Iterable

from freshline.errors import UsageError
from freshline.model.documents.listing import About
from freshline.store.read import resolve
from freshline.store.read.session import ReadSession
from freshline.unmatched import as_regex, is_pattern


def workflows(session: ReadSession, about: About) -> list[int] | None:
    """Return the ids of the workflows that entries are about; None for all."""
    resolve.project(session, about.project)
    found = _named(session, about)
    if about.project is None:
        return found
    own = {row["id"] for row in session.rows("matching_workflows", pattern=None, project=about.project)}
    return sorted(own if found is None else own.intersection(found))


def _named(session: ReadSession, about: About) -> list[int] | None:
    asset, workflow = about.asset, about.workflow
    if asset is not None and is_pattern(asset):
        return _known(row["workflowId"] for row in resolve.matching_assets(session, asset, about.project))
    if asset is not None:
        return _known([resolve.asset(session, asset)["workflowId"]])
    if workflow is not None and is_pattern(workflow):
        return _known(row["id"] for row in resolve.matching_workflows(session, workflow, about.project))
    return None if workflow is None else _known([resolve.workflow_id(session, workflow)])


def _known(ids: Iterable[int | None]) -> list[int]:
    return sorted({one for one in ids if one is not None})


def partition(session: ReadSession, about: About) -> str | None:
    """Return the canonical key of the partition; None for all. Patterns have several partitionings."""
    named = about.asset or about.workflow
    if about.partition is not None and named is not None and is_pattern(named):
        raise UsageError(f"{named!r} is a pattern; a partition belongs to one asset or workflow, so name it")
    return resolve.partition_key(session, about.partition, about.asset, about.workflow)


def subjects(session: ReadSession, subject: str | None, asset: str | None, project: str | None) -> list[str] | None:
    """Return the subjects of events; None for all."""
    resolve.project(session, project)
    found = _subjects(session, subject, asset, project)
    if project is None:
        return found
    assets = session.rows("matching_assets", pattern=None, project=project)
    slugs = session.rows("matching_workflows", pattern=None, project=project)
    own = {*(row["assetId"] for row in assets), *(row["slug"] for row in slugs)}
    return sorted(own if found is None else own.intersection(found))


def _subjects(session: ReadSession, subject: str | None, asset: str | None, project: str | None) -> list[str] | None:
    if asset is not None and is_pattern(asset):
        rows = resolve.matching_assets(session, asset, project)
        return sorted({name for row in rows for name in (row["assetId"], row["workflowSlug"]) if name})
    if asset is None and subject is not None and is_pattern(subject):
        pattern = as_regex(subject)
        slugs = [row["slug"] for row in session.rows("matching_workflows", pattern=pattern, project=project)]
        known = session.rows("matching_assets", pattern=pattern, project=project) if slugs else None
        rows = resolve.matching_assets(session, subject, project) if known is None else known
        return sorted({*slugs, *(row["assetId"] for row in rows)})
    return resolve.subjects(session, subject, asset)
