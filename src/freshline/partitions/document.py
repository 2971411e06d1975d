"""Partitionings as documents: what users write in `partitioning`, and what is stored. Both are read by `from_json`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from freshline.errors import PartitioningError
from freshline.partitions.calendar import UTC_NAME
from freshline.partitions.dimensions import Dimension, Dimensions
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys, Unpartitioned
from freshline.partitions.partitioning import Partitioning
from freshline.partitions.time_partitioning import TimePartitioning
from freshline.suggest import suggestion

_FIELDS = {
    "time": ("time", "start", "end", "timezone", "open"),
    "keys": ("keys",),
    "dynamic": ("dynamic",),
    "dimensions": ("dimensions",),
}


def from_json(document: object) -> Partitioning:
    """Return the partitioning of a document; `{}` and None mean none. Raise `PartitioningError` if it is wrong.

    `column` is not part of it: a table column with another name does not change the keys.
    """
    if document is None or document == {}:
        return Unpartitioned()
    fields = _object(document, "partitioning")
    if _kind(fields) == "dimensions":
        return Dimensions(tuple(_dimensions(fields["dimensions"])))
    return _dimension(fields)


def _dimensions(document: object) -> list[tuple[str, Dimension]]:
    """Read the object that users write, in its order, or the list that is stored."""
    if isinstance(document, Mapping):
        return [(_text("dimension", name), _dimension(_object(one, str(name)))) for name, one in document.items()]
    if not isinstance(document, list | tuple):
        raise PartitioningError(
            f"dimensions is {str(document)[:80]!r}; allowed is an object such as"
            " {day: {time: day, start: 2024-01-01}, region: {keys: [eu, us]}}"
        )
    found = [dict(_object(one, "a dimension")) for one in document]
    return [(_text("name", one.pop("name", None)), _dimension(one)) for one in found]


def _dimension(fields: Mapping[str, object]) -> Dimension:
    match _kind(fields):
        case "time":
            return _time(fields)
        case "keys":
            return _fixed(fields["keys"])
        case "dynamic":
            return _dynamic(fields["dynamic"])
        case _:
            raise PartitioningError("a dimension has dimensions itself; allowed are time, keys and dynamic")


def _time(fields: Mapping[str, object]) -> TimePartitioning:
    grain = _text("time", fields["time"])
    if grain not in list(Grain):
        hint = suggestion(grain, [str(one) for one in Grain])
        raise PartitioningError(f"time is {grain[:80]!r}; allowed are {', '.join(Grain)}{hint}")
    if fields.get("start") is None:
        raise PartitioningError(
            f"a partitioning by {grain} has no start; write the date of the first partition, such as start: 2024-01-01"
        )
    end, is_open = fields.get("end"), fields.get("open", False)
    if not isinstance(is_open, bool):
        raise PartitioningError(f"open is {str(is_open)[:80]!r}; allowed are true and false")
    return TimePartitioning(
        Grain(grain),
        start=_text("start", fields["start"]),
        end=None if end is None else _text("end", end),
        timezone=_text("timezone", fields.get("timezone", UTC_NAME)),
        open=is_open,
    )


def _fixed(values: object) -> FixedKeys:
    if not isinstance(values, list | tuple):
        raise PartitioningError(f"keys is {str(values)[:80]!r}; allowed is a list such as [eu, us]")
    return FixedKeys(tuple(_text("a key", value) for value in values))


def _dynamic(document: object) -> DynamicKeys:
    if document is None or document is True or document == {}:
        return DynamicKeys()
    limit = document.get("limit") if isinstance(document, Mapping) and document.keys() == {"limit"} else None
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise PartitioningError(f"dynamic is {str(document)[:80]!r}; allowed is an object such as {{limit: 100000}}")
    return DynamicKeys(limit)


def _kind(fields: Mapping[str, object]) -> str:
    kinds = [kind for kind in _FIELDS if kind in fields]
    if len(kinds) != 1:
        found = "none of them" if not kinds else " and ".join(kinds)
        raise PartitioningError(f"a partitioning is one of {', '.join(_FIELDS)}; this one has {found}")
    if unknown := sorted(str(field) for field in fields if field not in _FIELDS[kinds[0]]):
        hint = suggestion(unknown[0], _FIELDS[kinds[0]])
        allowed = ", ".join(_FIELDS[kinds[0]])
        raise PartitioningError(f"a partitioning with {kinds[0]} has {unknown[0][:80]!r}; allowed are {allowed}{hint}")
    return kinds[0]


def _object(document: object, what: str) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise PartitioningError(
            f"{what} is {str(document)[:80]!r}; allowed is an object such as {{time: day, start: 2024-01-01}}"
        )
    return document


def _text(field: str, value: object) -> str:
    """Return a text. YAML reads 2024-01-01 as a date and 2024 as a number."""
    if isinstance(value, date):  # also a time
        return value.isoformat()
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise PartitioningError(f"{field} is {str(value)[:80]!r}; allowed is a text")
