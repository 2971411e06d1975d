"""Recompute what was published from its recorded inputs, and find runs that read a mix and do not say so."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.chaos.chaos_workload import State, version
from tests.chaos.redefinitions import Applied

Row = dict[str, Any]
Reading = Mapping[str, str]  # data versions by asset
Made = Mapping[tuple[str, str], list[Reading | None]]  # what each version of an asset was made from; None: untraced


def wrong_contents(
    snapshots: Iterable[Row], runs: Iterable[Row], definitions: Mapping[tuple[int, int], Row], codes: Mapping[str, int]
) -> Iterator[str]:
    """Yield publications that do not follow from their recorded inputs and from the version of their run.

    `definitions`: by workflow and version. `codes`: by hash.
    """
    snapshots = [*snapshots]
    known = {(one["asset_id"], one["sequence"]): one["data_version"] for one in snapshots}
    by_id = {run["id"]: run for run in runs}
    for one in snapshots:
        if one["run_id"] is None or one["table_version"] is not None:  # tables are compared with their sources
            continue
        run, name = by_id[one["run_id"]], f"{one['asset_id']} #{one['sequence']}"
        definition = definitions[run["workflow_id"], run["version"]]
        read = {asset: pin["dataVersion"] for asset, pin in one["inputs"].items()}
        if {*read} != {entry["assetId"] for entry in definition["steps"][0]["consumes"]}:
            yield f"{name} was made from {sorted(read)} by version {run['version']}, which reads other assets"
        for asset, pin in one["inputs"].items():
            if known.get((asset, pin["sequence"]), pin["dataVersion"]) != pin["dataVersion"]:
                yield f"{name} was made from {asset} #{pin['sequence']} {pin['dataVersion']}, which is another version"
        code = codes.get(run["code_hash"])
        if code is None:
            yield f"{name} was made by code {run['code_hash']}, which was never applied"
        elif one["data_version"] != version(code, one["asset_id"], definition["parameters"]["salt"], read):
            yield f"{name} is {one['data_version']}, which does not follow from its inputs, parameters and code"


def silent_mixes(snapshots: Iterable[Row], runs: Sequence[Row], log: Sequence[Applied]) -> Iterator[str]:
    """Yield successful runs with `mixed: false` whose inputs were computed from two versions of one asset.

    Only runs during which no other state was applied are judged. Nothing is traced through data without a guarantee:
    of a run that says `mixed`, reported, or made from other inputs than those of the state in force. A run is judged
    by the state in which it was pinned: what it did not trace then is not traced later, through what it made.
    """
    made: dict[tuple[str, str], list[Reading | None]] = defaultdict(list)
    mixed = {run["id"]: run["mixed"] for run in runs}
    for one in snapshots:
        bound = one["run_id"] is not None and not mixed[one["run_id"]]
        read = {asset: pin["dataVersion"] for asset, pin in one["inputs"].items()}
        made[one["asset_id"], one["data_version"]].append(read if bound else None)
    before: dict[str, Row] = {}  # the last success
    for run in sorted((run for run in runs if run["status"] == "succeeded"), key=lambda run: run["finished_at"]):
        applied = in_force(log, run["queued_at"], run["started_at"])
        for end in _ends(_read(run), made, applied.state if applied else State()):
            made[end] = [None]
        if applied and not run["mixed"]:
            what = _mix(_read(run), before.get(run["slug"]), made, applied.state)
            yield from (f"{run['slug']}: {run['trigger_type']} run {run['id']} is not `mixed`: {one}" for one in what)
        before[run["slug"]] = run


def _mix(read: Reading, before: Row | None, made: Made, state: State) -> Iterator[str]:
    """Yield assets of which the inputs descend from two versions.

    Inputs that did not change since the last success are of one generation by the rule docs/semantics.md#R4.2. A
    redefinition can make them a mix afterwards; what they have in common is not judged again.
    """
    known = _read(before) if before and not before["mixed"] else {}
    same = {asset: one for asset, one in read.items() if known.get(asset) == one}
    judged = _ancestors(same, made, state)
    for asset, versions in _ancestors(read, made, state).items():
        if len(versions) > 1 and len(judged.get(asset, ())) < 2:
            yield f"two versions of {asset} ({', '.join(sorted(versions))})"


def _read(run: Row) -> Reading:
    return {asset: pin["dataVersion"] for asset, pin in run["pins"].items()}


def in_force(log: Sequence[Applied], begin: datetime, end: datetime) -> Applied | None:
    """Return the state that was in force during the whole time; None if another one may have been."""
    number = bisect_right(log, begin, key=lambda one: one.done) - 1
    if number < 0:
        return None
    last = log[number]
    return last if last.over is None or end <= last.over else None


def _ancestors(read: Reading, made: Made, state: State) -> dict[str, set[str]]:
    """Return the versions from which the inputs of a run descend, themselves included."""
    found: dict[str, set[str]] = defaultdict(set)
    waiting = [*read.items()]
    while waiting:
        asset, data_version = waiting.pop()
        if data_version not in found[asset]:
            found[asset].add(data_version)
            waiting += _traced(asset, data_version, made, state) or ()
    return found


def _ends(read: Reading, made: Made, state: State) -> list[tuple[str, str]]:
    """Return the versions among them that are not traced further."""
    every = [(asset, one) for asset, versions in _ancestors(read, made, state).items() for one in versions]
    return [one for one in every if _traced(*one, made, state) is None]


def _traced(asset: str, data_version: str, made: Made, state: State) -> list[tuple[str, str]] | None:
    """Return what a version was made from; None if it has no guarantee."""
    ways = made.get((asset, data_version), [None])
    flow = state.flows.get(asset)
    if flow is None or any(way is None or {*way} != {*flow.inputs} for way in ways):
        return None
    return [pair for way in ways if way for pair in way.items()]
