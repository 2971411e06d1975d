"""Metrics of a simulation: runs, holds, slot time, breaches, and the lag of assets behind their sources."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from freshline.decide import Decision
from freshline.model.enums import Outcome, Reason, RunStatus
from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.observer import Observer
from freshline.simulation.partition_lags import PartitionLags, plain_assets
from freshline.simulation.records import Asset, Run
from freshline.simulation.series import Series
from freshline.simulation.simulator import Simulator

# For each source, the number of its changes that are in an asset.
Stems = Mapping[str, int]


class Metrics(Observer):
    """Counts what happens in a simulation.

    The lag of an asset is the time from a change of a source to the publication of an asset computed from it, over
    triggering inputs (all inputs if none triggers). A change that ends at an unchanged output has no lag for the assets
    behind that output. A change that has not arrived at the end has the lag until then (`finish`).
    `PartitionLags` has the lags of assets with partitions and of those below them.
    """

    def __init__(self, catalogue: Catalogue, series: Series) -> None:
        self.series = series
        self.runs: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.mixed = 0
        self.holds: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.breaches: Counter[str] = Counter()
        self.lags: dict[str, array[float]] = defaultdict(lambda: array("f"))
        self.partitions: defaultdict[str, set[str]] = defaultdict(set)
        self._plain = plain_assets(catalogue)
        self._partition_lags = PartitionLags(catalogue) if catalogue.graph.partitioned else None
        self._inputs = {
            member.id: _relevant_inputs(member)
            for member in catalogue.members.values()
            if self._plain.issuperset(member.outputs)
        }
        self._held: dict[int, Reason] = {}
        self._times: dict[str, array[float]] = {one: array("d") for one in catalogue.sources if one in self._plain}
        self._stems: dict[str, Stems] = {}
        self._reads: dict[str, list[Stems]] = {}
        self.pending = 0

    def finish(self, simulator: Simulator) -> None:
        """Add the lag of the changes that have not arrived yet. Workflows that nothing starts have none."""
        now, catalogue = simulator.now.timestamp(), simulator.catalogue
        above: dict[str, frozenset[str]] = {source: frozenset({source}) for source in self._times}
        for number in sorted(self._inputs, key=catalogue.rank.__getitem__):
            member = catalogue.members[number]
            found = frozenset().union(*(above.get(one, frozenset()) for one in self._inputs[number]))
            above |= dict.fromkeys(member.outputs, found if member.policy.automatic else frozenset[str]())
        for asset_id in above.keys() - self._times.keys():
            known = self._stems.get(asset_id, {})
            for source in above[asset_id]:
                self.pending += self._arrived(asset_id, self._times[source][known.get(source, 0) :], now)
        for asset_id, lag in self._partition_lags.pending(simulator) if self._partition_lags else ():
            if asset_id not in self._plain:
                self.pending += self._arrived(asset_id, [now - lag], now)

    def decided(self, simulator: Simulator, member: Member, decision: Decision, run: Run | None) -> None:  # noqa: ARG002
        """Count holds. Consecutive holds for the same reason count once."""
        if decision.outcome is Outcome.HOLD:
            if self._held.get(member.id) is not decision.reason:
                self._held[member.id] = decision.reason
                self.holds[decision.reason] += 1
        else:
            self._held.pop(member.id, None)
        if run is not None and member.id in self._inputs:
            self._reads[run.id] = [self._stems[one] for one in self._inputs[member.id] if one in self._stems]

    def published(self, simulator: Simulator, asset: Asset, run: Run | None, *, changed: bool) -> None:
        """Record the lag of every change that is in the asset for the first time."""
        now = simulator.now.timestamp()
        if self._partition_lags is not None:
            self._publish(simulator, self._partition_lags, asset, run, changed=changed)
            if asset.asset_id not in self._plain:
                return
        if run is None:
            if changed:
                self._times[asset.id].append(now)
                self._stems[asset.id] = {asset.id: len(self._times[asset.id])}
            return
        stems, known = _merged(self._reads.get(run.id, [])), self._stems.get(asset.id, {})
        for source, count in stems.items():
            before = known.get(source, 0)
            if count > before:
                self._arrived(asset.id, self._times[source][before:count], now)
        self._stems[asset.id] = _latest(known, stems)
        if not changed:
            self._pass_on(simulator, asset.id)

    def _publish(
        self, simulator: Simulator, lags: PartitionLags, asset: Asset, run: Run | None, *, changed: bool
    ) -> None:
        if run is None:
            if changed:
                lags.reported(asset, simulator.now.timestamp())
            return
        lag = lags.published(simulator, asset, run, changed=changed)
        if lag is not None and asset.asset_id not in self._plain:
            now = simulator.now.timestamp()
            self._arrived(asset.asset_id, [now - lag], now)

    def _arrived(self, asset_id: str, times: Sequence[float], now: float) -> int:
        """Add the lags of changes that happened at these times; return how many there are."""
        self.lags[asset_id].extend([now - time for time in times])
        self.series.arrived(times, now)
        return len(times)

    def ended(self, simulator: Simulator, run: Run) -> None:  # noqa: ARG002 - the run has all facts
        """Count the run, and its slot time from start to end."""
        self.statuses[run.status] += 1
        self._reads.pop(run.id, None)
        if run.started_at is not None and run.finished_at is not None:
            self.runs[run.slug] += 1
            if run.partition_key:
                self.partitions[run.slug].add(run.partition_key)
            self.mixed += run.mixed
            self.seconds[run.slug] += (run.finished_at - run.started_at).total_seconds()
            self.series.ran(run.started_at, run.finished_at)

    def overdue(self, simulator: Simulator, asset: Asset) -> None:  # noqa: ARG002 - the asset has all facts
        """Count one breach per incident."""
        self.breaches[asset.asset_id] += 1

    def _pass_on(self, simulator: Simulator, asset_id: str) -> None:
        """Mark everything behind an unchanged output as up to date, as if it had run."""
        frontier = [asset_id]
        while frontier:
            for workflow_id in simulator.catalogue.graph.consumers(frontier.pop()):
                if workflow_id not in self._inputs:
                    continue  # it has partitions, or reads some
                member = simulator.catalogue.members[workflow_id]
                if workflow_id in simulator.active or not _up_to_date(simulator, member, self._inputs[workflow_id]):
                    continue
                stems = _merged([self._stems[one] for one in self._inputs[workflow_id] if one in self._stems])
                for output in member.outputs:
                    known = self._stems.get(output, {})
                    latest = _latest(known, stems)
                    if latest != known:
                        self._stems[output] = latest
                        frontier.append(output)


def failed(metrics: Metrics) -> int:
    """Return the number of failed runs."""
    return metrics.statuses[RunStatus.FAILED]


def _relevant_inputs(member: Member) -> tuple[str, ...]:
    triggering = tuple(one.asset_id for one in member.policy.inputs if one.triggers)
    return triggering or member.inputs


def _merged(reads: Sequence[Stems]) -> Stems:
    """Combine inputs: an asset has a change if all inputs that come from the source have it."""
    if len(reads) == 1:
        return reads[0]
    found: dict[str, int] = {}
    for stems in reads:
        for source, count in stems.items():
            if count < found.get(source, count + 1):
                found[source] = count
    return found


def _latest(known: Stems, stems: Stems) -> Stems:
    if all(stems.get(source, 0) >= count for source, count in known.items()):
        return stems
    return {source: max(known.get(source, 0), stems.get(source, 0)) for source in {*known, *stems}}


def _up_to_date(simulator: Simulator, member: Member, inputs: Sequence[str]) -> bool:
    consumed_versions = simulator.workflow_states[member.id].consumed_versions
    for asset_id in inputs:
        head, read = simulator.assets[asset_id].head, consumed_versions.get(asset_id)
        if head is None or read is None or not read.read_all_of(head):
            return False
    return True
