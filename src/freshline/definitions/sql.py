"""Mistakes in Spark SQL that can be seen without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshline.definitions.consistency import queries
from freshline.definitions.names import suggestion
from freshline.definitions.problems import Loc, Problem
from freshline.definitions.steps import view_name

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from freshline.definitions.schema import Step, Workflow

UNCHECKED = "unchecked"
_COMMENT = re.compile(rf"--\s*{UNCHECKED}\b")
_LEADING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_QUERY = frozenset({"select", "with", "from", "values", "table", "map", "reduce"})
# Spark's window function is a keyword to sqlglot; a name of the same length keeps the columns right.
_WINDOW = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)


def sql_problems(workflow: Workflow) -> Iterator[Problem]:
    """Queries and checks that cannot be parsed, and warnings about tables that a step does not consume."""
    for index, step in enumerate(workflow.steps):
        for loc, query in queries(index, step):
            yield from _query_problems(loc, query, step)
        for p, output in enumerate(step.produces):
            for c, check in enumerate(output.checks):
                if check.sql is not None:
                    text = check.sql if check.is_query else f"SELECT {check.sql}"
                    yield from _unreadable(("steps", index, "produces", p, "checks", c, "sql"), text)


def _query_problems(loc: Loc, query: str, step: Step) -> Iterator[Problem]:
    word = query[_LEADING.match(query).end() :].split(maxsplit=1)[:1]  # type: ignore[union-attr]  # matches always
    if not word or re.split(r"\W", word[0].lower())[0] not in _QUERY:
        yield Problem(
            loc,
            f"the SQL starts with {word[0] if word else 'nothing'!r}; allowed are queries: SELECT, WITH, FROM, VALUES",
        )
        return
    problems = list(_unreadable(loc, query))
    yield from problems
    if not problems and not _COMMENT.search(query):
        yield from _foreign_tables(loc, query, step)


def _unreadable(loc: Loc, query: str) -> Iterator[Problem]:
    try:
        statements = _parsed(query)
    except ValueError as error:
        hint = f"if Spark takes it, write the comment '-- {UNCHECKED}' into it"
        yield Problem(loc, f"the SQL cannot be parsed: {error}; {hint}")
        return
    if len(statements) > 1:
        yield Problem(loc, f"the SQL has {len(statements)} statements; allowed is one query")


def _foreign_tables(loc: Loc, query: str, step: Step) -> Iterator[Problem]:
    views = {view_name(item) for item in step.consumes}
    seen = {view.lower() for view in views}
    for name in _tables(_parsed(query)):
        if name.lower() not in seen:
            seen.add(name.lower())
            hint = suggestion(name, views) or "; add it to 'consumes'"
            yield Problem(loc, f"the SQL reads {name!r}, which the step does not consume{hint}", warning=True)


def _parsed(query: str) -> list[Expr]:
    """The statements; none if the user asked not to look. ValueError says where the mistake is."""
    if _COMMENT.search(query):
        return []
    import sqlglot  # noqa: PLC0415  # half a second that commands without definitions do not pay
    from sqlglot.errors import ParseError, SqlglotError  # noqa: PLC0415

    readable = _WINDOW.sub("wind0w", query)
    for dialect in ("databricks", "spark"):  # what either can read is left to Spark
        try:
            return [statement for statement in sqlglot.parse(readable, dialect=dialect) if statement is not None]
        except ParseError as error:
            reason = _place_of(error.errors[0]) if error.errors else str(error)
        except (SqlglotError, RecursionError) as error:
            reason = _unclosed(error)
    raise ValueError(reason)


def _place_of(error: dict[str, object]) -> str:
    near = f" near {str(error['highlight'])[:40]!r}" if error.get("highlight") else ""
    return f"line {error.get('line')}, column {error.get('col')}{near}: {error.get('description')}"


def _unclosed(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return "a quote, a comment or a bracket is not closed"


def _tables(statements: list[Expr]) -> Iterator[str]:
    from sqlglot import exp  # noqa: PLC0415

    for statement in statements:
        local = {cte.alias.lower() for cte in statement.find_all(exp.CTE)}
        for table in statement.find_all(exp.Table):
            named = isinstance(table.this, exp.Identifier) and not table.db
            if named and table.name.lower() not in local and table.find_ancestor(exp.Hint) is None:
                yield table.name
