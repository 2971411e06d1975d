"""What every partitioning can do.

`key_partitionings` has those without time, `time_partitioning` those by time, `dimensions` the products of both, and
`document` reads what users write.

`known` are the dynamic keys in the order in which they were first seen. Other partitionings ignore it. With a `dict`
the cost of `exists` does not depend on their number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from typing import NamedTuple

from freshline.errors import PartitionKeyError
from freshline.model.json import Json
from freshline.model.moment import iso
from freshline.partitions.calendar import Window
from freshline.partitions.keys import shown
from freshline.partitions.selection import EVERYTHING, NOTHING, Point, Selection
from freshline.suggest import suggestion

MOST_COMPARED = 1_000
"""How many keys are compared with a misspelled one."""

Known = Collection[str]


class Column(NamedTuple):
    """A column of the table that holds the partition: its default name and its type in Spark."""

    name: str
    type: str


class Newness(NamedTuple):
    """The time in which a key is the newest. None: from the beginning, or for ever."""

    since: datetime | None = None
    until: datetime | None = None


class Partitioning(ABC):
    """The keys of an asset: which are defined, which exist, and in which order they came to exist."""

    @property
    def is_dynamic(self) -> bool:
        """Whether keys exist only once they were seen."""
        return False

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that hold the partition."""

    @property
    @abstractmethod
    def example(self) -> str:
        """A valid key, for errors and help."""

    @abstractmethod
    def parse(self, key: str | Mapping[str, str]) -> str:
        """Return the key in its canonical form. Raise `PartitionKeyError` if the definition has no such key."""

    @abstractmethod
    def point(self, key: str) -> Point:
        """Return where a key is, for selections."""

    @abstractmethod
    def keys(
        self, selection: Selection, now: datetime, known: Known = (), *, newest_first: bool = True
    ) -> Iterator[str]:
        """Yield the existing keys of a selection, one after the other."""

    @abstractmethod
    def count(self, now: datetime, known: Known = ()) -> int:
        """Return the number of existing keys."""

    @abstractmethod
    def newest(self, now: datetime, known: Known = (), count: int = 1) -> Selection:
        """Return the newest keys: of the newest `count` windows, or the last seen. Fixed keys are equally new."""

    @abstractmethod
    def select(self, keys: Iterable[str]) -> Selection:
        """Return the selection of single keys."""

    def between(self, first: str | None = None, last: str | None = None) -> Selection:
        """Return the selection of the times from `first` to `last`, both included; None means without limit."""
        raise PartitionKeyError(
            f"partitions from {shown(first or '…')} to {shown(last or '…')} need partitions by time; these are not",
            hint="name the keys",
        )

    def older(self, key: str) -> Selection:
        """Return a selection of the keys that come after a key, newest first. Where it cannot be exact it holds more.

        Raise `PartitionKeyError` if the definition has no such key.
        """
        self.parse(key)
        return EVERYTHING

    @abstractmethod
    def as_json(self) -> Json:
        """Return the stored form; `document.from_json` reads it. Equal partitionings have equal forms."""

    def defines(self, key: str) -> bool:
        """Return whether the text is the canonical form of a key within the definition's range."""
        try:
            return self.parse(key) == key
        except PartitionKeyError:
            return False

    def comes_at(self, key: str) -> datetime | None:
        """Return when the time of a defined key comes; None if it has no time."""
        return None

    def has_come(self, key: str, now: datetime) -> bool:
        """Return whether the time of a defined key has come."""
        at = self.comes_at(key)
        return at is None or at <= now

    def exists(self, key: str, now: datetime, known: Known = ()) -> bool:
        """Return whether a key exists: it is defined, its time has come, and if it is dynamic, it was seen."""
        return self.defines(key) and self.has_come(key, now) and (not self.is_dynamic or key in known)

    def require_exists(self, key: str | Mapping[str, str], now: datetime, known: Known = ()) -> str:
        """Return the canonical key. Raise `PartitionKeyError` with the newest key if it does not exist."""
        found = self.parse(key)
        if self.exists(found, now, known):
            return found
        newest = self.newest_key(now, known)
        allowed = f"the newest is '{newest}'" if newest is not None else "no partition exists yet"
        if not self.has_come(found, now):
            at = iso(self.comes_at(found))
            raise PartitionKeyError(f"partition {shown(found)} does not exist before {at}; {allowed}")
        hint = suggestion(found, islice(known, MOST_COMPARED))
        raise PartitionKeyError(f"partition {shown(found)} does not exist: nothing has reported it; {allowed}{hint}")

    def require_begun(self, key: str, now: datetime) -> None:
        """Raise `PartitionKeyError` if the window of a defined key has not begun: nobody can have its data."""
        window = self.window(key)
        if window is not None and window.begins > now:
            begins, there = iso(window.begins), iso(now.replace(microsecond=0))
            raise PartitionKeyError(
                f"partition {shown(key)} has not begun: its window begins at {begins}, and it is {there}",
                hint="check the key and its time zone",
            )

    def newest_key(self, now: datetime, known: Known = ()) -> str | None:
        """Return the first key in the order from new to old; None if no key exists."""
        return next(self.keys(self.newest(now, known), now, known), None)

    def next_key_at(self, now: datetime) -> datetime | None:
        """Return when the next key comes to exist by itself; None if never."""
        return None

    def newness(self, key: str) -> Newness:
        """Return when a defined key is the newest, as far as time alone decides it. Fixed keys are equally new."""
        return Newness()

    def arrived(self, since: datetime, until: datetime) -> Selection:
        """Return the keys whose time came from `since` to `until`, both included."""
        return NOTHING

    def ending_after(self, at: datetime) -> Selection:
        """Return the keys whose windows end after a moment; all of them without a time partitioning."""
        return EVERYTHING

    def ended(self, since: datetime, until: datetime) -> Selection:
        """Return the keys whose windows ended from `since` to `until`, both included."""
        return NOTHING

    def next_end_after(self, at: datetime) -> datetime | None:
        """Return the first end of a window after a moment; None if there is none."""
        return None

    def window(self, key: str) -> Window | None:
        """Return the time of a key; None without a time partitioning."""
        return None

    def column_values(self, key: str) -> tuple[str | date | datetime, ...]:
        """Return the values of the columns: a date for a day, a time for hours and minutes, else the text."""
        return (key,)
