"""What users declare about a partitioned input: `consumes.partitions`. `compatibility` makes a mapping of it.

A rule says which partitions of one dimension of the input a consumer reads. An input without dimensions has one rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from freshline.errors import PartitioningError
from freshline.model.json import Json
from freshline.partitions.keys import shown
from freshline.suggest import suggestion

MOST_SHIFT = 100_000
MOST_LATEST = 1_000
MOST_PICKED = 1_000

_PLAIN = ("same", "overlap", "all")
_RULES = ("same", "overlap", "window", "all", "latest", "pick")
_FIELDS = (*_RULES, "dimensions", "affects", "timeColumn")


@dataclass(frozen=True)
class Same:
    """The partition with the same key."""

    def as_json(self) -> Json:
        """Return what users write."""
        return {"same": True}


@dataclass(frozen=True)
class Overlap:
    """The partitions that share time with the consumer's. `whole`: also where they do not nest."""

    whole: bool = False

    def as_json(self) -> Json:
        """Return what users write."""
        return {"overlap": "whole" if self.whole else True}


@dataclass(frozen=True)
class Around:
    """A range of partitions around the consumer's window (`window: {from, to}`), counted in partitions of the input.

    From `first` after the first one that overlaps the window to `last` after the last one; negative is before.
    `whole`: also where they do not nest.
    """

    first: int
    last: int
    whole: bool = False

    def __post_init__(self) -> None:
        if not -MOST_SHIFT <= self.first <= self.last <= MOST_SHIFT:
            raise PartitioningError(
                f"window is from {self.first:,} to {self.last:,}; allowed are whole numbers from -{MOST_SHIFT:,} to"
                f" {MOST_SHIFT:,}, from not above to"
            )

    def as_json(self) -> Json:
        """Return what users write."""
        return {"window": {"from": self.first, "to": self.last}, **({"overlap": "whole"} if self.whole else {})}


@dataclass(frozen=True)
class All:
    """Every partition."""

    def as_json(self) -> Json:
        """Return what users write."""
        return {"all": True}


@dataclass(frozen=True)
class Latest:
    """The newest partitions that have data."""

    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_LATEST:
            raise PartitioningError(f"latest is {self.count:,}; allowed are 1 to {MOST_LATEST:,}")

    def as_json(self) -> Json:
        """Return what users write."""
        return {"latest": self.count}


@dataclass(frozen=True)
class Pick:
    """Chosen values of a dimension."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.values) <= MOST_PICKED:
            raise PartitioningError(f"pick has {len(self.values):,} values; allowed are 1 to {MOST_PICKED:,}")

    def as_json(self) -> Json:
        """Return what users write."""
        return {"pick": list(self.values)}


Rule = Same | Overlap | Around | All | Latest | Pick


class Affects(StrEnum):
    """Which partitions of the consumer a change of an unpartitioned input makes stale."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True)
class Declaration:
    """What `consumes.partitions` says about the keys that are read.

    `rule`: of an input without dimensions, or of the time dimension of one with dimensions; None is the default.
    `dimensions`: the rules of single dimensions of the input. `time_column`: the column by which views are cut to the
    consumer's window, so that the partitions need not nest.
    """

    rule: Rule | None = None
    dimensions: tuple[tuple[str, Rule], ...] = ()
    affects: Affects = Affects.ALL
    time_column: str | None = None

    def as_json(self) -> Json:
        """Return the stored form, which users may write too. Defaults are left out."""
        return {
            **(self.rule.as_json() if self.rule else {}),
            **({"dimensions": {name: rule.as_json() for name, rule in self.dimensions}} if self.dimensions else {}),
            **({"affects": str(self.affects)} if self.affects is not Affects.ALL else {}),
            **({"timeColumn": self.time_column} if self.time_column is not None else {}),
        }


def from_json(document: object) -> Declaration:
    """Return the declaration of a document. Raise `PartitioningError` if it is wrong.

    `require`, `grace` and other fields of `partitions` are not part of it. None and `{}` mean the defaults.
    """
    fields = _fields({} if document is None else document, _FIELDS)
    picked = _object("pick", fields.get("pick", {}))
    named = _object("dimensions", fields.get("dimensions", {}))
    if twice := sorted(picked.keys() & named.keys()):
        raise PartitioningError(f"pick and dimensions both have {twice[0]!r}; allowed is one rule per dimension")
    rules = {name: rule_from_json(one) for name, one in named.items()}
    rules |= {name: Pick(_values(value)) for name, value in picked.items()}
    affects, column = fields.get("affects", Affects.ALL), fields.get("timeColumn")
    if affects not in list(Affects):
        raise PartitioningError(f"affects is {str(affects)[:80]!r}; allowed are {', '.join(Affects)}")
    if column is not None and not (isinstance(column, str) and column):
        raise PartitioningError(f"timeColumn is {str(column)[:80]!r}; allowed is the name of a column of the input")
    return Declaration(
        _rule({name: value for name, value in fields.items() if name in _RULES and name != "pick"}),
        tuple(sorted(rules.items(), key=lambda item: item[0])),
        Affects(str(affects)),
        column,
    )


def rule_from_json(document: object) -> Rule:
    """Return the rule of one dimension: `same`, `{window: {from: -6, to: 0}}`, `{pick: eu}`."""
    fields = _fields(document, _RULES)
    rule = Pick(_values(fields["pick"])) if set(fields) == {"pick"} else _rule(fields)
    if rule is None:
        raise PartitioningError(f"a dimension has no rule; allowed is one of {', '.join(_RULES)}")
    return rule


def _rule(fields: Mapping[str, object]) -> Rule | None:
    names = set(fields)
    whole = _whole(fields["overlap"]) if "overlap" in fields else False
    if names - {"overlap"} == {"window"}:
        return _around(fields["window"], whole=whole)
    if len(names) > 1:
        raise PartitioningError(f"partitions has {' and '.join(sorted(names))}; allowed is one of {', '.join(_RULES)}")
    match next(iter(names), None):
        case None:
            return None
        case "overlap":
            return Overlap(whole)
        case "latest":
            return Latest(_integer("latest", fields["latest"]))
        case "same" | "all" as name if fields[name] is True:
            return Same() if name == "same" else All()
        case name:
            raise PartitioningError(f"{name} is {str(fields[str(name)])[:80]!r}; allowed is true")


def _around(document: object, *, whole: bool) -> Around:
    fields = _object("window", document)
    if fields.keys() != {"from", "to"}:
        raise PartitioningError(f"window is {str(document)[:80]!r}; allowed is an object such as {{from: -6, to: 0}}")
    return Around(_integer("from", fields["from"]), _integer("to", fields["to"]), whole)


def _whole(value: object) -> bool:
    if value is True or value == "whole":
        return value == "whole"
    raise PartitioningError(f"overlap is {str(value)[:80]!r}; allowed are true and whole")


def _values(value: object) -> tuple[str, ...]:
    found = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in found):
        raise PartitioningError(f"pick is {str(value)[:80]!r}; allowed are values such as eu, or a list of them")
    return tuple(str(one) for one in found)


def _integer(field: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PartitioningError(f"{field} is {str(value)[:80]!r}; allowed is a whole number")


def _fields(document: object, allowed: tuple[str, ...]) -> Mapping[str, object]:
    """Return the fields of an object; `same` is `{same: true}`."""
    if isinstance(document, str) and document in _PLAIN:
        return {document: True}
    if isinstance(document, str):
        raise PartitioningError(
            f"partitions is {shown(document)}; allowed are {', '.join(_PLAIN)} and objects such as"
            f" {{window: {{from: -6, to: 0}}}}{suggestion(document, _PLAIN)}"
        )
    fields = _object("partitions", document)
    if unknown := sorted(fields.keys() - set(allowed)):
        hint = suggestion(unknown[0], allowed)
        raise PartitioningError(f"partitions has {shown(unknown[0])}; allowed are {', '.join(allowed)}{hint}")
    return fields


def _object(field: str, document: object) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise PartitioningError(f"{field} is {str(document)[:80]!r}; allowed is an object")
    return {str(name): value for name, value in document.items()}
