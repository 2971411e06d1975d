"""The status of assets and workflows, derived from the rows of one statement each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from freshline.model.documents.partition import PartitionSummary
from freshline.model.documents.status import (
    AssetStatus,
    Hold,
    LastRun,
    OlderCode,
    Pause,
    Pool,
    RootCause,
    Status,
    WantedStatus,
    WorkflowStatus,
)
from freshline.model.enums import AssetState, PartitionState
from freshline.plural import counted
from freshline.store import source_warnings
from freshline.store.db.database import Row
from freshline.store.read import older_code, resolve
from freshline.store.read.code_question import question
from freshline.store.read.partitions import CurrentPartitions
from freshline.store.read.session import ReadSession, json_value
from freshline.store.read.summary import read_causes, summarize
from freshline.unmatched import is_pattern

MOST_CAUSES = 20
MOST_QUESTIONS = 10
AT_REST = frozenset({AssetState.FRESH, AssetState.SOURCE, AssetState.RETIRED})
# A process without a heartbeat for this long counts as dead: twice the lease.
SILENT_MS = 30_000


def read_status(session: ReadSession, partitions: CurrentPartitions, name: str | None, wanted: WantedStatus) -> Status:
    """Return the status of the installation, of one asset or workflow, or of the assets that a pattern matches."""
    names, slugs = resolve.scope(session, name)
    one = name is not None and not is_pattern(name)
    resolve.project(session, wanted.project)
    newest = partitions.newest(names)
    assets = session.rows("status_assets", assets=names, **newest_of(newest))
    workflows = session.rows("status_workflows", slugs=slugs, **newest_of(partitions.newest() if slugs else newest))
    summaries = partitions.summaries(newest)
    undecided = older_code.read(session, names)
    queue = session.rows("queue", grace=SILENT_MS)[0]
    everything = wanted.everything or one or AssetState.RETIRED in wanted.states
    retired = [] if everything else [row for row in assets if row["retired"]]
    mine = [row for row in assets if wanted.project in {None, row["project"]}]
    states = {row["assetId"]: state_of(row, summaries.get(row["assetId"])) for row in mine}
    hidden = {row["assetId"] for row in retired}
    matched = [row for row in mine if row["assetId"] not in hidden and states[row["assetId"]] in _states(wanted)]
    page = [row for row in matched if wanted.after is None or row["assetId"] > wanted.after]
    shown = page if wanted.limit is None else page[: wanted.limit]
    makers = None if wanted.whole else {row["workflowSlug"] for row in shown}
    all_fresh = AT_REST.issuperset(states.values())
    known = name is None and wanted.project is None
    causes = None if not known else [] if all_fresh else read_causes(session, partitions.graph, states)
    return {
        "at": session.json_rows("clock")[0]["now"],
        "summary": summarize(states, causes, matched=len(matched), undecided=len(undecided.keys() & states)),
        "next": shown[-1]["assetId"] if len(shown) < len(page) else None,
        "assets": [asset_status(row, summaries.get(row["assetId"]), undecided.get(row["assetId"])) for row in shown],
        "workflows": [workflow_status(row) for row in workflows if makers is None or row["slug"] in makers],
        "pools": session.documents(Pool, "pools"),
        "notes": [*notes(queue), *_proposals(session, slugs), *_questions(assets, undecided, states)],
        "warnings": source_warnings.of_names(session, names, slugs) if names and slugs is not None else [],
        "retired": len(retired),
        "materializers": queue["materializers"],
        "rootCauses": session.documents(RootCause, "root_causes", slugs=slugs, limit=MOST_CAUSES) if one else [],
    }


def _states(wanted: WantedStatus) -> Collection[AssetState]:
    return wanted.states or frozenset(AssetState)


def newest_of(newest: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the newest partition of each asset as parameters of a statement."""
    return {"newest_assets": list(newest), "newest_keys": list(newest.values())}


def asset_status(
    row: Row, partitions: PartitionSummary | None = None, undecided: OlderCode | None = None
) -> AssetStatus:
    """Return an entry of `status.assets`. Of an asset with partitions it describes the newest, and counts all."""
    planned = next_refresh(row)
    return {
        "assetId": row["assetId"],
        "project": row["project"],
        "partitionKey": row["partitionKey"],
        "workflowSlug": row["workflowSlug"],
        "state": state_of(row, partitions).value,
        "upstreamFailing": row["upstreamFailing"],
        "needsDecision": undecided,
        "producedAt": json_value(row["producedAt"]),
        "expiresAt": json_value(row["expiresAt"]),
        "expired": row["expired_at"] is not None,
        "dataVersion": row["dataVersion"],
        "version": row["version"],
        "tableVersion": row["tableVersion"],
        "rows": row["rows"],
        "bytes": row["bytes"],
        "mixed": row["mixed"],
        "mixedUpstream": row["mixedUpstream"],
        "runId": json_value(row["runId"]),
        "lastAutoRun": _last_run(row),
        "nextRefreshAt": json_value(planned[0] if planned else None),
        "hold": _hold(row),
        "partitions": partitions,
    }


def state_of(row: Row, partitions: PartitionSummary | None) -> AssetState:
    """Return the state of an asset; with `partitions`, of all of them."""
    return asset_state(row) if partitions is None else _partitions_state(row, partitions)


def _partitions_state(row: Row, partitions: PartitionSummary) -> AssetState:
    """Return the state of an asset with partitions: the first that one of them is in.

    A missing partition counts only if no partition has data: its inputs may never have existed.
    """
    counts = partitions["counts"]
    for state, matches in (
        (AssetState.RETIRED, row["retired"]),
        (AssetState.SOURCE, row["workflowSlug"] is None),
        (AssetState.RUNNING, counts[PartitionState.RUNNING]),
        (AssetState.FAILING, counts[PartitionState.FAILED]),
        (AssetState.MISSING, counts[PartitionState.MISSING] == partitions["total"]),
        (AssetState.WAITING, row["queued"] or row["hold"] is not None),
        (AssetState.STALE, counts[PartitionState.STALE]),
    ):
        if matches:
            return state
    return AssetState.FRESH


def asset_state(row: Row) -> AssetState:
    """Return the state of an asset: the first that matches (docs/semantics.md#R5.2)."""
    for state, matches in (
        (AssetState.RETIRED, row["retired"]),
        (AssetState.SOURCE, row["workflowSlug"] is None),
        (AssetState.RUNNING, row["running"]),
        (AssetState.FAILING, row["failures"] > 0 or row["only_failed"]),
        (AssetState.MISSING, row["missing"]),
        (AssetState.WAITING, row["queued"] or row["hold"] is not None),
        (AssetState.STALE, row["due"] or row["behind"] or row["expired_at"] is not None),
    ):
        if matches:
            return state
    return AssetState.FRESH


def workflow_status(row: Row) -> WorkflowStatus:
    """Return an entry of `status.workflows`."""
    return {
        "slug": row["slug"],
        "workflowVersion": row["version"],
        "project": row["project"],
        "automatic": row["automatic"],
        "paused": _paused(row),
        "inFlight": json_value(row["inFlight"]),
        "inFlightStatus": row["inFlightStatus"],
        "cooldown": {"failures": row["failures"], "nextEligibleAt": json_value(row["eligible_at"])},
        "breaker": {"state": "open" if row["breaker_at"] else "closed", "openedAt": json_value(row["breaker_at"])},
        "hold": _hold(row),
        "succeededAt": json_value(row["succeededAt"]),
        "runsAvoided": row["avoided"],
    }


def _proposals(session: ReadSession, slugs: Sequence[str] | None) -> list[str]:
    """Return a sentence per backfill that waits for an approval."""
    return [
        f"backfill {row['id']} of {row['asset_id']} waits for an approval:"
        f" {counted(row['partitions'], 'old partition')}"
        f" would run; `freshline backfill show {row['id']}` says why"
        for row in session.rows("proposals", slugs=slugs)
    ]


def _questions(assets: Sequence[Row], undecided: Mapping[str, OlderCode], shown: Collection[str]) -> list[str]:
    """Return a sentence per table with rows of older code about which nobody has decided."""
    slugs = {row["assetId"]: row["workflowSlug"] for row in assets if row["assetId"] in shown}
    found = [question(name, slugs[name], one) for name, one in undecided.items() if name in slugs]
    more = len(found) - MOST_QUESTIONS
    return (
        found
        if more <= 0
        else [*found[:MOST_QUESTIONS], f"{counted(more, 'more table needs', 'more tables need')} a decision"]
    )


def notes(queue: Row) -> list[str]:
    """Return a sentence for each kind of waiting work that no running process can do."""
    found = []
    if queue["unattended"]:
        names = ", ".join(queue["unattended"])
        found.append(f"{_count(queue['queued'], 'run')} queued and no worker of project {names} is running")
    if queue["other_code"]:
        found.append(
            f"{_count(queue['other_code'], 'run')} queued for other code than the workers have; "
            "apply the project where they run, or update their files"
        )
    if queue["unabsorbed"] and not queue["materializers"]:
        found.append(f"{_count(queue['unabsorbed'], 'event')} not looked at and no materializer is running")
    elif queue["due"] and not queue["materializers"]:
        found.append(f"{_count(queue['due'], 'workflow')} due and no materializer is running")
    found += [f"a worker takes no Spark runs: {trouble}" for trouble in queue["engine"] or ()]
    if queue["unlogged"]:
        # Without names: `/readyz` shows the notes without a token.
        found.append(f"{_count(queue['unlogged'], 'Delta log')} not written; `freshline doctor` says why")
    found += queue["warehouse"] or ()
    return found + [f"{trouble}; events wait for it, all else goes on" for trouble in queue["bus"] or ()]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} is" if number == 1 else f"{number} {noun}s are"


def _last_run(row: Row) -> LastRun | None:
    if row["last_run"] is None:
        return None
    return {
        "runId": json_value(row["last_run"]),
        "status": row["last_status"],
        "finishedAt": json_value(row["last_finished"]),
        "reason": row["last_reason"],
    }


def _hold(row: Row) -> Hold | None:
    if row["hold"] is None:
        return None
    return {"reason": row["hold"], "until": json_value(_hold_end(row)), "blocker": row["blocker"]}


def _hold_end(row: Row) -> datetime | None:
    until: datetime | None = row["blocks_until"]
    return until or _parse_time(row["until"])


def next_refresh(row: Row) -> tuple[datetime, str] | None:
    """Return the time and the reason of the next automatic evaluation or run; None if none is planned."""
    if not row["automatic"] or (row["paused_at"] is not None and row["paused_until"] is None):
        return None
    if row["eligible_at"] is not None:
        return row["eligible_at"], "retry"
    planned = [(row["due_at"], row["due_reason"]), (row["not_before"] if row["hold"] else None, row["hold"])]
    return min(((time, why) for time, why in planned if time is not None), default=None)


def _paused(row: Row) -> Pause | Literal[False]:
    if row["paused_at"] is None:
        return False
    return {"since": json_value(row["paused_at"]), "until": json_value(row["paused_until"])}


def _parse_time(text: Any) -> datetime | None:
    if not isinstance(text, str):
        return None
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
