"""The newest values of the dimensions of an input: which `latest` reads, and in which order they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from freshline.partitions import keys as texts
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.key_partitionings import FixedKeys
from freshline.partitions.mapping import PartitionMapping, Values
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.time_partitioning import TimePartitioning


def newest_values(mapping: PartitionMapping, keys: Iterable[str], known: Collection[str] = ()) -> Values:
    """Return the newest values of each dimension with `latest`, from new to old.

    `keys`: those of the input that have data. `known`: the dynamic keys of the input, in the order in which they were
    first seen.
    """
    found = [key for key in keys if mapping.input.defines(key)]
    return {
        place: _ranked(axis.input, (_value(mapping, key, place) for key in found), _seen(mapping, place, known))
        for place, axis in mapping.latest.items()
    }


def with_key(mapping: PartitionMapping, newest: Values, key: str, known: Collection[str] = ()) -> Values:
    """Return the newest values as if a key of the input had data. An older one comes after those that are read."""
    return {
        place: _ranked(axis.input, (*newest.get(place, ()), _value(mapping, key, place)), _seen(mapping, place, known))
        for place, axis in mapping.latest.items()
    }


def _value(mapping: PartitionMapping, key: str, place: int) -> str:
    return texts.split(key)[place] if isinstance(mapping.input, Dimensions) else key


def _seen(mapping: PartitionMapping, place: int, known: Iterable[str]) -> dict[str, int]:
    """Return the order in which the values of a dynamic dimension were first seen."""
    if not mapping.latest[place].input.is_dynamic:
        return {}
    return {value: n for n, value in enumerate(dict.fromkeys(_value(mapping, key, place) for key in known))}


def _ranked(axis: Partitioning, values: Iterable[str], seen: dict[str, int]) -> list[str]:
    """Return different values from new to old: by window, by first seen; fixed ones in the order of their list."""
    found = dict.fromkeys(values)
    if isinstance(axis, TimePartitioning):
        return sorted(found, reverse=True)  # keys of one grain sort as texts in the order of time
    if isinstance(axis, FixedKeys):
        return [value for value in axis.values if value in found]
    return sorted(found, key=lambda value: seen.get(value, -1), reverse=True)
