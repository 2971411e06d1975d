"""Which mappings are possible between two partitionings, and which one is the default.

Dimensions of the input and of the consumer belong together if they have the same name, or if they are the only two left
that are times. A partitioning without dimensions belongs to the only dimension of its kind on the other side. A
dimension of the input that has no counterpart is read whole. A refusal says why, and what to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType

from freshline.errors import PartitioningError, PartitionKeyError
from freshline.model.moment import iso
from freshline.partitions import keys as texts
from freshline.partitions.axis import FixedSlice, KeyLink, LatestSlice, Link, Slice, TimeLink
from freshline.partitions.calendar import Window
from freshline.partitions.declaration import Affects, All, Around, Declaration, Latest, Overlap, Pick, Rule, Same
from freshline.partitions.dimensions import Dimension, Dimensions
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys
from freshline.partitions.mapping import Linked, PartitionMapping, axes_of
from freshline.partitions.nesting import misfit
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.requirements import ALL, ANY, Requirement
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.suggest import did_you_mean

DEFAULTS = Declaration()
_INSTEAD = "write all or latest: 1, so that every partition of the consumer reads all of them or the newest"


def mapping_between(
    input: Partitioning,  # noqa: A002 - the word of users
    consumer: Partitioning,
    declared: Declaration = DEFAULTS,
    *,
    own_output: bool = False,
) -> PartitionMapping:
    """Return the declared or the default mapping. Raise `PartitioningError` if it cannot be.

    `own_output`: the input is made by the consumer itself, which may read only earlier partitions of it.
    """
    _require_affects(input, consumer, declared)
    rules = _rules(input, declared)
    counterparts = _counterparts(input, consumer)
    if _unrelated(input, consumer) and not any(rules):
        raise PartitioningError(
            f"the input has {described(input)} and the consumer {described(consumer)}; no mapping follows from that",
            hint=_INSTEAD,
        )
    axes = tuple(
        _axis(one, rule, place, axes_of(consumer), declared)
        for one, rule, place in zip(axes_of(input), rules, counterparts, strict=True)
    )
    if own_output:
        _require_earlier(axes)
    return PartitionMapping(input, consumer, axes, declared.affects)


def default_requirement(mapping: PartitionMapping) -> Requirement:
    """Return how many keys must have data by default: one for `all` and `latest`, else all of them."""
    whole = any(isinstance(axis, LatestSlice) or axis == FixedSlice() for axis in mapping.axes)
    linked = any(isinstance(axis, Linked) for axis in mapping.axes)
    return ANY if whole and not linked else ALL


def _require_affects(input: Partitioning, consumer: Partitioning, declared: Declaration) -> None:  # noqa: A002
    if declared.affects is not Affects.ALL and (axes_of(input) or not axes_of(consumer)):
        raise PartitioningError(
            f"affects is {declared.affects}, which is about an input without partitions and a consumer with partitions;"
            f" the input has {described(input)}, the consumer {described(consumer)}",
            hint="remove affects",
        )
    if not axes_of(input) and (declared.dimensions or not isinstance(declared.rule, All | None)):
        raise PartitioningError(
            "the input has no partitions, so that every partition of the consumer reads all of it; allowed is affects",
            hint="remove the mapping",
        )


def _rules(input: Partitioning, declared: Declaration) -> Sequence[Rule | None]:  # noqa: A002
    """Return the declared rule of each dimension of the input; None for the default."""
    if not isinstance(input, Dimensions):
        if declared.dimensions:
            raise PartitioningError(
                f"the input has {described(input)}, so that dimension '{declared.dimensions[0][0]}' does not exist",
                hint="write the rule without dimensions or pick",
            )
        return [declared.rule] * len(axes_of(input))
    named = dict(declared.dimensions)
    if unknown := next((name for name in named if name not in input.names), None):
        raise PartitioningError(
            f"dimension '{unknown}' does not exist in the input; allowed are {', '.join(input.names)}",
            hint=did_you_mean(unknown, input.names),
        )
    times = [name for name, axis in input.items if isinstance(axis, TimePartitioning)]
    if isinstance(declared.rule, Around | Overlap | Latest):
        if len(times) != 1:
            raise PartitioningError(
                f"the input has {described(input)}: it is open which dimension the mapping is about",
                hint=f"write dimensions: {{{input.names[0]}: …}}",
            )
        named = {times[0]: declared.rule, **named}
    elif declared.rule is not None:
        named = {**dict.fromkeys(input.names, declared.rule), **named}
    return [named.get(name) for name in input.names]


def _counterparts(input: Partitioning, consumer: Partitioning) -> list[int | None]:  # noqa: A002
    """Return for each dimension of the input the place of the dimension of the consumer that belongs to it."""
    names = input.names if isinstance(input, Dimensions) else (None,) * len(axes_of(input))
    others = consumer.names if isinstance(consumer, Dimensions) else (None,) * len(axes_of(consumer))
    found: list[int | None] = [others.index(name) if name is not None and name in others else None for name in names]
    kinds: list[type[Dimension] | UnionType] = [TimePartitioning]
    if None in names or None in others:
        kinds += [DynamicKeys, FixedKeys, DynamicKeys | FixedKeys]
    for kind in kinds:
        left = [n for n, axis in enumerate(axes_of(input)) if found[n] is None and isinstance(axis, kind)]
        free = [n for n, axis in enumerate(axes_of(consumer)) if n not in found and isinstance(axis, kind)]
        if len(left) == len(free) == 1:
            found[left[0]] = free[0]
    return found


def _axis(
    axis: Dimension, rule: Rule | None, place: int | None, others: Sequence[Dimension], declared: Declaration
) -> Linked | Slice:
    match rule:
        case All():
            return FixedSlice()
        case Latest(count):
            return LatestSlice(axis, count)
        case Pick(values):
            return FixedSlice(axis.select(_picked(axis, values)))
        case None if place is None:
            return FixedSlice()  # a dimension that the consumer does not have is read whole
    if place is None:
        raise PartitioningError(
            f"{_name(rule)} needs a consumer with partitions that correspond to {described(axis)}; it has"
            f" {' and '.join(map(described, others)) or 'no partitions'}",
            hint="write all, latest or pick",
        )
    return Linked(_link(axis, others[place], rule, whole=declared.time_column is not None), place)


def _link(axis: Dimension, other: Dimension, rule: Rule | None, *, whole: bool) -> Link:
    if isinstance(axis, TimePartitioning) and isinstance(other, TimePartitioning):
        return _time_link(axis, other, rule, whole=whole)
    if isinstance(axis, TimePartitioning) or isinstance(other, TimePartitioning):
        raise PartitioningError(
            f"the input has {described(axis)} and the consumer {described(other)}; their keys have nothing in common",
            hint=_INSTEAD,
        )
    if not isinstance(rule, Same | None):
        raise PartitioningError(
            f"{_name(rule)} is about time, and the input has {described(axis)}", hint="write same or all"
        )
    return _key_link(axis, other)


def _time_link(axis: TimePartitioning, other: TimePartitioning, rule: Rule | None, *, whole: bool) -> Link:
    if isinstance(rule, Same) and axis.calendar != other.calendar:
        raise PartitioningError(
            f"same needs equal keys; the input has {axis.calendar.name} and the consumer {other.calendar.name}",
            hint="write overlap",
        )
    shared = Window(max(axis.span.begins, other.span.begins), min(axis.span.ends, other.span.ends))
    first, last = (rule.first, rule.last) if isinstance(rule, Around) else (0, 0)
    if shared.begins >= shared.ends and not isinstance(rule, Around):
        raise PartitioningError(
            f"the input has keys from {_range(axis)} and the consumer from {_range(other)}; they share no time",
            hint="correct start or end",
        )
    if not whole and not (isinstance(rule, Overlap | Around) and rule.whole):
        _require_nesting(axis, other, shared)
    return TimeLink(axis, other, first, last)


def _require_nesting(axis: TimePartitioning, other: TimePartitioning, shared: Window) -> None:
    found = misfit(axis.calendar, other.calendar, shared)
    if found is None:
        return
    coarse, fine, at = found
    raise PartitioningError(
        f"{coarse.name} do not consist of whole {fine.name}: {coarse.key_at(at)} begins at {iso(at)}, within"
        f" {fine.key_at(at)}; the rows of {fine.key_at(at)} would count twice",
        hint="name the timeColumn of the input, by which its rows are cut to the window, or write overlap: whole to"
        " read every partition that shares any time",
    )


def _key_link(axis: FixedKeys | DynamicKeys, other: FixedKeys | DynamicKeys) -> Link:
    if isinstance(axis, FixedKeys) and isinstance(other, FixedKeys):
        missing = [value for value in other.values if value not in axis.values]
        if missing:
            raise PartitioningError(
                f"the consumer has the key {texts.shown(missing[0])}, which the input does not have; it has"
                f" {', '.join(axis.values[:5])}",
                hint="add the key to the input, or write all",
            )
    return KeyLink(axis, other)


def _require_earlier(axes: tuple[Linked | Slice, ...]) -> None:
    times = [axis.link for axis in axes if isinstance(axis, Linked) and isinstance(axis.link, TimeLink)]
    if not any(link.last < 0 for link in times) or any(isinstance(axis, LatestSlice) for axis in axes):
        raise PartitioningError(
            "a workflow that reads its own output may read only earlier partitions of it",
            hint="write a window that ends before 0, such as window: {from: -1, to: -1}",
        )


def _picked(axis: Dimension, values: Sequence[str]) -> list[str]:
    try:
        return [axis.parse(value) for value in values]
    except PartitionKeyError as error:
        raise PartitioningError(f"pick: {error.message}", hint=error.hint) from None


def _unrelated(input: Partitioning, consumer: Partitioning) -> bool:  # noqa: A002
    """Return whether both have partitions, and no dimension of one belongs to one of the other."""
    both = bool(axes_of(input) and axes_of(consumer))
    return both and all(place is None for place in _counterparts(input, consumer))


def _range(partitioning: TimePartitioning) -> str:
    return f"{partitioning.start} to {partitioning.calendar.key(partitioning.last) if partitioning.end else 'no end'}"


def _name(rule: Rule | None) -> str:
    return "overlap" if rule is None else next(iter(rule.as_json()))


def described(partitioning: Partitioning) -> str:
    """Return a partitioning in words: `days in Europe/Berlin`, `fixed keys`, `no partitions`."""
    if isinstance(partitioning, TimePartitioning):
        return partitioning.calendar.name
    if isinstance(partitioning, Dimensions):
        return "dimensions " + ", ".join(f"{name} ({described(axis)})" for name, axis in partitioning.items)
    if isinstance(partitioning, FixedKeys):
        return "fixed keys"
    return "dynamic keys" if isinstance(partitioning, DynamicKeys) else "no partitions"
