"""PURE: places for the assets of a graph: a layer, an order within the layer, and a group by the prefix of the name.

The same assets and edges have the same places, whatever the order in which they are given. A small change of the graph
moves few assets: the order of an asset within its layer depends on its ancestors alone. More sweeps, also from below,
would cross fewer edges in a random graph and more in one of domains, and would reorder half of it for one new asset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where an asset is drawn. `layer`: the length of the longest way from an asset that reads nothing."""

    asset_id: str
    layer: int
    order: int
    group: str


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The places of all assets, by id, and the edges as pairs of numbers of places."""

    places: Sequence[Place]
    edges: Sequence[tuple[int, int]]
    layers: int
    groups: Sequence[str]


def lay_out(assets: Iterable[str], edges: Iterable[tuple[str, str]]) -> GraphLayout:
    """Place every asset once. An edge leads from an asset to one that is made from it, in a later layer.

    Raise ValueError for a cycle, and for an edge of an unknown asset. An edge from an asset to itself is left out.
    """
    names = sorted(set(assets))
    numbers = {name: number for number, name in enumerate(names)}
    try:
        pairs = sorted({(numbers[one], numbers[other]) for one, other in edges if one != other})
    except KeyError as unknown:
        raise ValueError(f"an edge names the asset {unknown.args[0]!r}, which is not one of the assets") from None
    links = _Links(len(names), pairs)
    layers = links.layers(names)
    groups = prefix_groups(names)
    orders = _orders(links, layers)
    places = [Place(name, layers[at], orders[at], groups[at]) for at, name in enumerate(names)]
    return GraphLayout(places, pairs, max(layers, default=-1) + 1, sorted(set(groups)))


def prefix_groups(names: Sequence[str]) -> list[str]:
    """Return the group of each name: the part before its last dot.

    A prefix of one name only is joined with the prefix above it, up to the empty one.
    """
    members: defaultdict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        members[name.rpartition(".")[0]].append(number)
    for depth in range(max((one.count(".") for one in members), default=0), -1, -1):
        for prefix in [one for one in members if one and one.count(".") == depth and len(members[one]) == 1]:
            members[prefix.rpartition(".")[0]] += members.pop(prefix)
    groups = {number: prefix for prefix, numbers in members.items() for number in numbers}
    return [groups[number] for number in range(len(names))]


class _Links:
    """The edges in both directions, by number."""

    def __init__(self, count: int, pairs: Iterable[tuple[int, int]]) -> None:
        self.inputs: list[list[int]] = [[] for _ in range(count)]
        self.outputs: list[list[int]] = [[] for _ in range(count)]
        for one, other in pairs:
            self.outputs[one].append(other)
            self.inputs[other].append(one)

    def layers(self, names: Sequence[str]) -> list[int]:
        """Return the length of the longest way to each node. It does not recurse, because chains may be deep."""
        found = [0] * len(self.inputs)
        missing = [len(one) for one in self.inputs]
        ready = [number for number, count in enumerate(missing) if not count]
        for number in ready:  # grows while it is read
            for below in self.outputs[number]:
                found[below] = max(found[below], found[number] + 1)
                missing[below] -= 1
                if not missing[below]:
                    ready.append(below)
        if len(ready) < len(found):
            name = next(names[number] for number, count in enumerate(missing) if count)
            raise ValueError(f"the graph has a cycle at or above the asset {name!r}")
        return found

    def components(self) -> list[list[int]]:
        """Return the connected parts, by their first members; each sorted."""
        seen = [False] * len(self.inputs)
        found = []
        for start in range(len(seen)):
            if seen[start]:
                continue
            seen[start] = True
            members = [start]
            for number in members:  # grows while it is read
                for near in (*self.inputs[number], *self.outputs[number]):
                    if not seen[near]:
                        seen[near] = True
                        members.append(near)
            found.append(sorted(members))
        return found


def _orders(links: _Links, layers: Sequence[int]) -> list[int]:
    """Return the order of each node within its layer: at the mean place of its inputs, ties by id.

    Roots are in the order of their components, and of their ids.
    """
    places = [0.0] * len(layers)
    for place, root in enumerate(one for part in links.components() for one in part if not links.inputs[one]):
        places[root] = place
    for number in sorted(range(len(layers)), key=lambda one: layers[one]):
        if above := links.inputs[number]:
            places[number] = sum(places[one] for one in above) / len(above)
    orders = [0] * len(layers)
    taken: Counter[int] = Counter()
    for number in sorted(range(len(layers)), key=lambda one: (places[one], one)):
        orders[number] = taken[layers[number]]
        taken[layers[number]] += 1
    return orders
