"""How many assets are fresh, and how many causes explain the others: the first line of `status` and of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from freshline.graph import Graph
from freshline.model.documents.status import StatusSummary
from freshline.model.enums import AssetState
from freshline.plural import counted
from freshline.store.db.queries import load
from freshline.store.read.session import ReadSession

if TYPE_CHECKING:
    from freshline.store.read.root_causes import Found

NOT_PRODUCED = frozenset({AssetState.SOURCE, AssetState.RETIRED})
NOTHING = "nothing is applied yet; `freshline apply` stores a project's definitions"


def summarize(
    states: Mapping[str, AssetState], found: Sequence[Found] | None, *, matched: int, undecided: int = 0
) -> StatusSummary:
    """Return the summary of assets in these states. `found`: the causes, if they are all assets.

    `undecided`: how many have rows of older code about which nobody has decided.
    """
    produced = produced_states(states)
    fresh = sum(state is AssetState.FRESH for state in produced)
    return {
        "sentence": sentence(produced, found, applied=bool(states)) + _questions(undecided),
        "total": len(produced),
        "fresh": fresh,
        "counts": dict(Counter(state.value for state in states.values())),
        "matched": matched,
        "causes": None if found is None else sum(bool(one.unfresh) for one in found),
    }


def _questions(undecided: int) -> str:
    return f"; {counted(undecided, 'table needs', 'tables need')} a decision" if undecided else ""


def read_causes(session: ReadSession, graph: Graph, states: Mapping[str, AssetState]) -> list[Found]:
    """Return the causes of what is not fresh. `states`: those of all assets."""
    from freshline.store.read.cause_reader import CauseReader  # noqa: PLC0415 - not needed if everything is fresh

    now = session.rows("clock")[0]["now"]
    return CauseReader(ReadSession(session.connection, load("overview")), graph, states, now).found()


def produced_states(states: Mapping[str, AssetState]) -> list[AssetState]:
    """Return the states of the assets that workflows produce."""
    return [state for state in states.values() if state not in NOT_PRODUCED]


def sentence(produced: Sequence[AssetState], found: Sequence[Found] | None, *, applied: bool) -> str:
    """Return how many assets are fresh and, if the causes are known, how many explain the others."""
    if not applied:
        return NOTHING
    total, fresh = len(produced), sum(state is AssetState.FRESH for state in produced)
    explaining = sum(bool(one.unfresh) for one in found or ())
    others = len(found or ()) - explaining
    also = f"; {counted(others, 'other cause needs', 'other causes need')} attention" if others else ""
    if not total:
        return f"no asset is produced{also}"
    if found is None:
        return f"{fresh:,} of {total:,} fresh"
    if fresh == total:
        return f"{fresh:,} of {total:,} fresh{also.replace('other cause', 'cause')}"
    verb = "explains" if explaining == 1 else "explain"
    rest = f"the other {total - fresh:,}" if fresh else "them"
    return f"{fresh:,} of {total:,} fresh; {counted(explaining, 'cause')} {verb} {rest}{also}"
