"""The scopes of tokens: what a caller may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """A right. `read`, `operate` and `admin` include the previous ones; `data`, the rows of tables, is apart."""

    READ = "read"
    DATA = "data"
    OPERATE = "operate"
    ADMIN = "admin"


RANK = {Scope.READ: 0, Scope.OPERATE: 1, Scope.ADMIN: 2}


@dataclass(frozen=True, slots=True)
class Rights:
    """The scope of a caller, and whether it may read rows. `admin` always may."""

    scope: Scope
    data: bool = False

    def has(self, scope: Scope) -> bool:
        """Return whether this includes a scope."""
        if scope is Scope.DATA:
            return self.data or self.scope is Scope.ADMIN
        return RANK[self.scope] >= RANK[scope]

    def missing(self, needed: Iterable[Scope]) -> Scope | None:
        """Return the first of these scopes that is not included; None if all are."""
        return next((one for one in needed if not self.has(one)), None)

    def all(self) -> list[Scope]:
        """Return every scope that this includes."""
        return [one for one in Scope if self.has(one)]


# Requests without a token, where they are allowed.
ANONYMOUS = Rights(Scope.OPERATE, data=True)
