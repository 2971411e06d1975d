"""The workflows of a simulation: policies, inputs, outputs and the graph. They never change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from freshline.decide.batch import with_defaults
from freshline.definitions.loading.project import LoadedWorkflow
from freshline.definitions.partition_edges import resolve
from freshline.definitions.steps import partitionings, produced
from freshline.errors import NotFoundError
from freshline.graph import UNPARTITIONED, Graph
from freshline.model.policy import Freshness, Policy
from freshline.model.state import reference
from freshline.partitions.partitioning import Partitioning
from freshline.reading import consuming
from freshline.settings import Settings
from freshline.simulation.horizon import later
from freshline.suggest import hint


@dataclass(frozen=True)
class Member:
    """One workflow of a simulation, or one partition of it. The ids of workflows without partitions are theirs."""

    id: int
    slug: str
    policy: Policy
    job_fingerprint: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    version: int = 1
    partition_key: str = ""
    of: int | None = None  # the workflow of a partition

    @property
    def workflow_id(self) -> int:
        """The id of the workflow."""
        return self.id if self.of is None else self.of

    @property
    def name(self) -> str:
        """The slug, with the partition if there is one."""
        return reference(self.slug, self.partition_key)

    @cached_property
    def changes_with_time(self) -> bool:
        """Whether a hold may become another one without an event: quiet hours begin, inputs age."""
        return bool(self.policy.quiet_hours or self.policy.age_limits)


class Catalogue:
    """All workflows of a simulation by id. Ids are in the order of the slugs, as in the store.

    `members` has the workflows without partitions, and each partition of the others that was asked for once.
    """

    def __init__(self, workflows: Iterable[Member], graph: Graph | None = None) -> None:
        self.workflows = {one.id: one for one in workflows}
        self.graph = graph or _graph(self.workflows.values())
        self.members = {
            number: one for number, one in self.workflows.items() if not self.graph.partitioning_of(number).columns
        }
        order = sorted(self.workflows, key=lambda one: (self.graph.level(one), one))
        self.rank = {workflow_id: place for place, workflow_id in enumerate(order)}
        self._numbers: dict[tuple[int, str], int] = {}
        self.by_slug = {one.slug: one for one in self.workflows.values()}
        self.freshness = {
            output.asset_id: output.freshness
            for one in self.workflows.values()
            for output in one.policy.outputs
            if output.freshness != Freshness()
        }
        made = {asset_id for one in self.workflows.values() for asset_id in one.outputs}
        read = {asset_id for one in self.workflows.values() for asset_id in one.inputs}
        self.sources = tuple(sorted(read - made))
        self.assets = tuple(sorted(read | made))

    def member(self, workflow_id: int, partition_key: str = "") -> Member:
        """Return the member of a partition of a workflow."""
        if not partition_key:
            return self.members[workflow_id]
        number = self._numbers.get((workflow_id, partition_key))
        if number is None:
            number = self._numbers[workflow_id, partition_key] = max(self.workflows) + 1 + len(self._numbers)
            self.members[number] = replace(
                self.workflows[workflow_id], id=number, of=workflow_id, partition_key=partition_key
            )
        return self.members[number]

    def members_of(self, workflow_id: int) -> list[int]:
        """Return the known partitions of a workflow, or the workflow itself if it has none."""
        if not self.graph.partitioning_of(workflow_id).columns:
            return [workflow_id]
        return [one.id for one in self.members.values() if one.workflow_id == workflow_id]

    def place(self, number: int) -> tuple[int]:
        """Return the place of a member's workflow in the order of decisions: ancestors first."""
        return (self.rank[self.members[number].workflow_id],)

    @classmethod
    def of(
        cls,
        workflows: Iterable[LoadedWorkflow],
        settings: Settings,
        sources: Mapping[str, Partitioning] | None = None,
        since: datetime | None = None,
    ) -> Catalogue:
        """Return the catalogue of loaded definitions.

        `settings` have the default backoff. `sources`: the partitionings of sources; one that is not named has none.
        Without `sources`, partitions are left out: every workflow is one unit. `since`: partitions of earlier windows
        are left out.
        """
        ordered = sorted(workflows, key=lambda one: one.definition.slug)
        members = [
            Member(
                id=number,
                slug=one.definition.slug,
                policy=with_defaults(one.policy, settings),
                job_fingerprint=one.job_fingerprint,
                inputs=tuple(item.asset_id for item in one.policy.inputs),
                outputs=tuple(sorted(produced(one.definition))),
            )
            for number, one in enumerate(ordered, start=1)
        ]
        if sources is None:
            return cls(members)
        divided = {**sources, **partitionings(one.definition for one in ordered)}
        if since is not None:
            divided = {asset_id: later(one, since) for asset_id, one in divided.items()}
        return cls(members, _graph(members, divided))

    def find(self, name: str) -> Member:
        """Return the workflow with this slug, or the one that produces this asset."""
        producer = self.graph.producer(name)
        found = self.by_slug.get(name) or (self.workflows.get(producer) if producer is not None else None)
        if found is not None:
            return found
        if name in self.assets:
            raise NotFoundError(f"asset {name!r} is a source: no workflow produces it", hint="report it instead")
        raise _unknown("workflow or asset", name, [*self.by_slug, *self.assets])

    def triggered_by(self, assets: Collection[str]) -> int:
        """Return how many automatic workflows a change of these assets would run."""
        readers = {one for asset_id in assets for one in consuming(self.graph, asset_id)}
        policies = [self.workflows[one].policy for one in readers]
        return sum(policy.automatic and not policy.triggering.isdisjoint(assets) for policy in policies)

    def asset(self, name: str) -> str:
        """Return the name if there is such an asset; raise `NotFoundError` otherwise."""
        if name in self.assets:
            return name
        raise _unknown("asset", name, self.assets)

    def __deepcopy__(self, _memo: object) -> Catalogue:
        """Return the catalogue itself: it never changes, so copies of a simulator share it."""
        return self


def _unknown(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    return NotFoundError(f"{kind} {name!r} does not exist", hint=hint(name, sorted(set(known))))


def _graph(members: Iterable[Member], divided: Mapping[str, Partitioning] | None = None) -> Graph:
    """Return the graph. `divided`: the partitionings of assets; one that is not named has none."""
    known = list(members)
    read = {asset_id: UNPARTITIONED for member in known for asset_id in member.inputs}
    found: dict[str, Partitioning] = {**read, **(divided or {})}
    numbers = {member.slug: member.id for member in known}
    resolved = resolve({one.slug: one.policy for one in known}, found).resolved if divided else {}
    edges = {(asset_id, numbers[slug]): edge for (asset_id, slug), edge in resolved.items()}
    return Graph(
        epoch=1,
        slugs={member.id: member.slug for member in known},
        producers={asset_id: member.id for member in known for asset_id in member.outputs},
        edges=[
            *((asset_id, member.id) for member in known for asset_id in member.inputs),
            *((own.asset_id, member.id) for member in known for own in member.policy.predecessors),
        ],
        not_triggering=[
            (asset_id, member.id)
            for member in known
            for asset_id in member.inputs
            if asset_id not in member.policy.triggering
        ],
        partitionings={asset_id: one for asset_id, one in found.items() if one.columns},
        mappings={edge: one.mapping for edge, one in edges.items()},
        requirements={edge: one.requirement for edge, one in edges.items()},
    )
