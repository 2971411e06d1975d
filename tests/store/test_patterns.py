"""Patterns of names: PostgreSQL finds what `fnmatch` matches, so that no listing filters all names in Python."""

from __future__ import annotations

from fnmatch import fnmatchcase

import psycopg
import pytest

from freshline.store.db.queries import load
from freshline.unmatched import as_regex

NAMES = ["core__a", "core__b", "core_.a", "Core__a", "sales.daily", "sales-daily", "s", "a:b", "a.b", "axb", "b1", "b9"]
PATTERNS = [
    "*", "?", "core__*", "*__a", "core__[ab]", "core__[!a]", "sales.*", "sales?daily", "a.b", "[!a]*", "b[1-5]",
    "b[5-1]", "[a-z]", "a[.:]b", "[]a]*", "[", "s[", "(s)", "s|b1", "^s$", "a[^x]b", "[[]", "[\\d]", "*]", "**",
    "s*[!]]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_database_matches_what_fnmatch_matches(database_url: str, pattern: str) -> None:
    """Whole names, with case; characters that only regular expressions know mean themselves."""
    with psycopg.connect(database_url) as connection:
        query = "SELECT name FROM unnest(%s::text[]) name WHERE name ~ %s"
        found = [row[0] for row in connection.execute(query, (NAMES, as_regex(pattern)))]
    assert sorted(found) == sorted(name for name in NAMES if fnmatchcase(name, pattern))


def test_a_pattern_with_a_beginning_uses_no_sort_of_everything(database_url: str) -> None:
    """The names that match come from one scan of the table of names, and the filter is in it."""
    parameters = {"pattern": as_regex("core__*"), "project": None}
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(f"EXPLAIN {load('read')['matching_assets']}", parameters).fetchall()
    plan = "\n".join(row[0] for row in rows)
    assert "~ '^core__.*$'::text" in plan
