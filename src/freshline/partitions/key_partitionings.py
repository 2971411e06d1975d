"""Partitionings without time: none, fixed keys, and keys that appear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Reversible
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from itertools import islice

from freshline.errors import PartitioningError, PartitionKeyError
from freshline.model.json import Json
from freshline.partitions import keys as texts
from freshline.partitions.keys import UNPARTITIONED, shown
from freshline.partitions.partitioning import MOST_COMPARED, Column, Known, Partitioning
from freshline.partitions.selection import EVERYTHING, Everything, Point, Selection, keys_of
from freshline.suggest import suggestion

MOST_FIXED_KEYS = 10_000
MOST_DYNAMIC_KEYS = 10_000_000
DEFAULT_COLUMN = "partition_key"
_MOST_LISTED = 5


class _TextKeys(Partitioning):
    """Keys that are only texts."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column of the key."""
        return (Column(DEFAULT_COLUMN, "STRING"),)

    def point(self, key: str) -> Point:
        """Return the key itself."""
        return key

    def select(self, keys: Iterable[str]) -> Selection:
        """Return the selection of single keys."""
        return keys_of(self.parse(key) for key in keys)


@dataclass(frozen=True)
class Unpartitioned(_TextKeys):
    """One partition, whose key is the empty text."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """No columns."""
        return ()

    @property
    def example(self) -> str:
        """The empty key."""
        return UNPARTITIONED

    def parse(self, key: str | Mapping[str, str]) -> str:
        """Return the empty key. Any other is an error."""
        if key != UNPARTITIONED:
            raise PartitionKeyError(
                f"partition key {shown(str(key))} does not exist: the asset has no partitions",
                hint="leave the key out",
            )
        return UNPARTITIONED

    def keys(
        self, selection: Selection, now: datetime, known: Known = (), *, newest_first: bool = True
    ) -> Iterator[str]:
        """Yield the empty key if it is selected."""
        return iter((UNPARTITIONED,) if selection.has(UNPARTITIONED) else ())

    def count(self, now: datetime, known: Known = ()) -> int:
        """Return 1."""
        return 1

    def newest(self, now: datetime, known: Known = (), count: int = 1) -> Selection:
        """Return everything."""
        return EVERYTHING

    def column_values(self, key: str) -> tuple[str | date | datetime, ...]:
        """Return no values."""
        return ()

    def as_json(self) -> Json:
        """Return the stored form."""
        return {}


@dataclass(frozen=True)
class FixedKeys(_TextKeys):
    """A list of keys. All of them exist, and none is newer than another."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.values) <= MOST_FIXED_KEYS:
            raise PartitioningError(f"keys has {len(self.values):,} entries; allowed are 1 to {MOST_FIXED_KEYS:,}")
        object.__setattr__(self, "values", tuple(texts.canonical(value) for value in self.values))
        if len(self._set) < len(self.values):
            twice = next(value for n, value in enumerate(self.values) if value in self.values[:n])
            raise PartitioningError(f"keys has {shown(twice)} twice; allowed are different keys")

    @cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self.values)

    @property
    def example(self) -> str:
        """A valid key."""
        return self.values[0]

    def parse(self, key: str | Mapping[str, str]) -> str:
        """Return the key if it is in the list."""
        text = texts.canonical(text_of(key))
        if text not in self._set:
            listed = ", ".join(self.values[:_MOST_LISTED]) + (", …" if len(self.values) > _MOST_LISTED else "")
            hint = suggestion(text, self.values[:MOST_COMPARED])
            raise PartitionKeyError(f"partition key {shown(text)} does not exist; allowed are {listed}{hint}")
        return text

    def keys(
        self, selection: Selection, now: datetime, known: Known = (), *, newest_first: bool = True
    ) -> Iterator[str]:
        """Yield the selected keys in the order of the list."""
        return (value for value in self.values if selection.has(value))

    def count(self, now: datetime, known: Known = ()) -> int:
        """Return the length of the list."""
        return len(self.values)

    def newest(self, now: datetime, known: Known = (), count: int = 1) -> Selection:
        """Return everything: the keys are equally new."""
        return EVERYTHING

    def as_json(self) -> Json:
        """Return the stored form."""
        return {"keys": list(self.values)}


@dataclass(frozen=True)
class DynamicKeys(_TextKeys):
    """Keys that appear: they are reported or added, or an input that is mapped `same` has them.

    `limit`: how many there may be; whoever adds a key enforces it.
    """

    limit: int = 100_000

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST_DYNAMIC_KEYS:
            raise PartitioningError(f"limit is {self.limit:,}; allowed are 1 to {MOST_DYNAMIC_KEYS:,}")

    @property
    def is_dynamic(self) -> bool:
        """Whether keys exist only once they were seen: always."""
        return True

    @property
    def example(self) -> str:
        """A valid key."""
        return "eu-west"

    def parse(self, key: str | Mapping[str, str]) -> str:
        """Return the key if it is a valid text."""
        return texts.canonical(text_of(key))

    def keys(
        self, selection: Selection, now: datetime, known: Known = (), *, newest_first: bool = True
    ) -> Iterator[str]:
        """Yield the selected keys by first seen."""
        order = newest_of(known) if newest_first else iter(known)
        return order if isinstance(selection, Everything) else (key for key in order if selection.has(key))

    def count(self, now: datetime, known: Known = ()) -> int:
        """Return how many keys were seen."""
        return len(known)

    def newest(self, now: datetime, known: Known = (), count: int = 1) -> Selection:
        """Return the keys that were first seen last."""
        return keys_of(islice(newest_of(known), count))

    def as_json(self) -> Json:
        """Return the stored form."""
        return {"dynamic": {"limit": self.limit}}


def newest_of(known: Known) -> Iterator[str]:
    """Yield the known keys from the last seen to the first seen."""
    return reversed(known) if isinstance(known, Reversible) else reversed(tuple(known))


def text_of(key: str | Mapping[str, str]) -> str:
    """Return the text of a key that has one value. Raise `PartitionKeyError` for an object of dimensions."""
    if isinstance(key, str):
        return key
    raise PartitionKeyError(
        f"partition key {shown(str(dict(key)))} has dimensions, but the asset has none; allowed is a text"
    )
