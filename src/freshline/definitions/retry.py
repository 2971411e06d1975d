"""After which failures a step is tried again within its run (docs/semantics.md#R7.5). Pure."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

On = Literal["transient", "any"] | Collection[str]
# Errors of the program. The same program raises them again: only another definition or other data helps.
PERMANENT = (
    SyntaxError,
    ImportError,
    NameError,
    AttributeError,
    TypeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    NotImplementedError,
    RecursionError,
)
MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class Failure:
    """What a step failed with. `names`: the class of the exception and its bases. `permanent`: see `PERMANENT`."""

    names: tuple[str, ...] = ()
    permanent: bool = False

    def tried_again(self, on: On) -> bool:
        """Return whether `retry.on` asks for another try."""
        if on == "any":
            return True
        return not self.permanent if on == "transient" else not set(self.names).isdisjoint(on)


def failure_of(error: BaseException) -> Failure:
    """Return what an exception of user code means for further tries."""
    return Failure(_names(type(error)), isinstance(error, PERMANENT))


def failure_named(name: str) -> Failure:
    """Return the same for an exception of which only the name of the class is known."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return Failure(_names(kind), issubclass(kind, PERMANENT))
    return Failure((name, name.rpartition(".")[2]))


def _names(kind: type[BaseException]) -> tuple[str, ...]:
    """Return the names of the class and of its bases, alone and with their modules."""
    found = [one for one in kind.__mro__ if issubclass(one, BaseException) and one is not BaseException]
    names = [name for one in found for name in (one.__name__, f"{one.__module__}.{one.__qualname__}")]
    return tuple(dict.fromkeys(names))[:MOST_NAMES]
