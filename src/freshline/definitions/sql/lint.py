"""Checks of Spark SQL that need no Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from freshline.definitions.names import view_of
from freshline.definitions.schema.checks import VIEW
from freshline.definitions.schema.workflow import Query, SparkSql, Step, Workflow
from freshline.definitions.sql.columns import unstorable_columns
from freshline.definitions.sql.relations import Relation, relations
from freshline.definitions.steps import view_name
from freshline.definitions.validation.problems import Loc, Problem
from freshline.errors import Place
from freshline.suggest import suggestion

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

UNCHECKED = "unchecked"
_COMMENT = re.compile(rf"--\s*{UNCHECKED}\b")
_LEADING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_QUERY = frozenset({"select", "with", "from", "values", "table", "map", "reduce"})
# `window`, a function of Spark, is a keyword of sqlglot. A name of the same length keeps the columns of errors right.
_WINDOW = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)


class SqlError(ValueError):
    """Why a query is rejected, and the line of the mistake."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Text:
    """A query or a check of a step, and its place in the definition or in a file."""

    loc: Loc
    query: Query
    step: Step
    is_check: bool = False

    def problem(self, message: str, line: int | None = None, *, warning: bool = False) -> Problem:
        """Return a problem at the place of the text, or in its file."""
        place = Place(self.query.file, line) if self.query.file else None
        return Problem(self.loc, message, warning=warning, place=place)

    def at(self, relation: Relation) -> str:
        """Describe the place of a relation. The column helps only in a file, where the line is shown too."""
        return f"column {relation.column} of the SQL" if self.query.file and relation.column else "the SQL"

    def views(self) -> list[str]:
        """Return the views that the text may read."""
        return [view_name(item) for item in self.step.consumes] + ([VIEW] if self.is_check else [])


def sql_problems(workflow: Workflow, known: Mapping[str, str]) -> Iterator[Problem]:
    """Yield queries and checks that cannot be parsed or read unknown views, and inputs that no query reads.

    Columns that no Delta table can have are mistakes too: the table would have no log for other engines.

    `known`: the views of all assets of the project, in lower case, with their ids.
    """
    for index, step in enumerate(workflow.steps):
        asked, checks = list(queries(index, step)), list(_checks(index, step))
        read: set[str] = set()
        complete = bool(asked)
        for text in (*asked, *checks):
            try:
                statements = _statements(text)
            except SqlError as error:
                yield text.problem(str(error), error.line)
                statements = None
            found = _relations_read(statements) if statements else None
            if statements and not text.is_check:
                yield from (text.problem(*one) for one in unstorable_columns(statements[0]))
            yield from _relation_problems(text, found or (), known)
            complete = complete and found is not None
            read |= {one.name.lower() for one in found or () if not one.qualified}
        if complete:
            yield from _unused(index, step, read)


def queries(index: int, step: Step) -> Iterator[Text]:
    """Yield the queries of a step."""
    if not isinstance(step.job, SparkSql):
        return
    loc: Loc = ("steps", index, "job")
    for asset_id, query in step.job.queries(step).items():
        if query.text:
            yield Text((*loc, "outputs", asset_id) if step.job.outputs else (*loc, "sql"), query, step)


def _checks(index: int, step: Step) -> Iterator[Text]:
    for p, output in enumerate(step.produces):
        for c, check in enumerate(output.checks):
            if check.sql is not None:
                text = check.sql if check.is_query else f"SELECT {check.sql}"
                loc: Loc = ("steps", index, "produces", p, "checks", c, "sql")
                yield Text(loc, Query(text), step, is_check=True)


def _statements(text: Text) -> list[Expr]:
    """Return the query; nothing if the user turned the check off. Raise `SqlError` if it is not exactly one query."""
    if not text.is_check:
        _require_query(text.query.text)
    statements = parsed(text.query.text)
    if len(statements) > 1:
        raise SqlError(f"the SQL has {len(statements)} statements; allowed is one query")
    return statements


def _relations_read(statements: list[Expr]) -> list[Relation]:
    """Return the distinct tables that a query reads."""
    found = {(one.name.lower(), one.qualified): one for one in reversed(_in_order(statements))}
    return list(reversed(found.values()))


def _require_query(sql: str) -> None:
    start = sql[_LEADING.match(sql).end() :].split(maxsplit=1)[:1]  # type: ignore[union-attr]  # it always matches
    if not start or re.split(r"\W", start[0].lower())[0] not in _QUERY:
        first = start[0] if start else "nothing"
        raise SqlError(f"the SQL starts with {first!r}; allowed are queries: SELECT, WITH, FROM, VALUES")


def _relation_problems(text: Text, found: Iterable[Relation], known: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the tables that the step does not consume.

    A check of a Python job only warns: the code may have created further views.
    """
    views = text.views()
    mine = {view.lower() for view in views}
    warning = text.is_check and not isinstance(text.step.job, SparkSql)
    for one in found:
        if one.qualified:
            yield from _qualified(text, one, known)
        elif one.name.lower() not in mine:
            message = _not_consumed(text, one, views, known.get(one.name.lower()))
            yield text.problem(message, one.line, warning=warning)


def _in_order(statements: list[Expr]) -> list[Relation]:
    return sorted(relations(statements), key=lambda one: (one.line or 0, one.column or 0))


def _not_consumed(text: Text, one: Relation, views: list[str], asset_id: str | None) -> str:
    """Return the message. A view that is not consumed does not exist in the run, and its changes cause no run."""
    mistake = f"{text.at(one)} reads {one.name!r}, which the step does not consume"
    if asset_id is not None:
        return f"{mistake}; add {{assetId: {asset_id}}} to 'consumes'"
    hint = suggestion(one.name, views) or "; add its asset to 'consumes'."
    return f"{mistake}{hint} A table of Spark's own catalogue needs its schema's name or the comment '-- {UNCHECKED}'"


def _qualified(text: Text, one: Relation, known: Mapping[str, str]) -> Iterator[Problem]:
    """Warn about a qualified name, such as `sales.daily`, that is also the id of an asset."""
    view = view_of(one.name)
    if known.get(view.lower(), "").lower() == one.name.lower():
        message = f"{text.at(one)} reads {one.name!r} from Spark's catalogue; the asset is read as {view!r}"
        yield text.problem(message, one.line, warning=True)


def _unused(index: int, step: Step, read: AbstractSet[str]) -> Iterator[Problem]:
    for position, item in enumerate(step.consumes):
        if view_name(item).lower() not in read:
            message = "is consumed, but no query of the step reads it; its changes cause runs that change nothing"
            yield Problem(("steps", index, "consumes", position), message, warning=True)


def parsed(query: str) -> list[Expr]:
    """Return the statements; none if the user turned the check off. Raise `SqlError` if they cannot be parsed."""
    if _COMMENT.search(query):
        return []
    import sqlglot  # noqa: PLC0415 - it takes 0.5 s, which commands without definitions should not pay
    from sqlglot.errors import ParseError, SqlglotError  # noqa: PLC0415

    readable = _WINDOW.sub("wind0w", query)
    for dialect in ("databricks", "spark"):  # what one of them can parse is left to Spark
        try:
            return [statement for statement in sqlglot.parse(readable, dialect=dialect) if statement is not None]
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            mistake = _not_parsed(_place_of(first) if first else str(error), first.get("line"))
        except (SqlglotError, RecursionError) as error:
            mistake = _not_parsed(_unclosed(error))
    raise mistake


def _not_parsed(reason: str, line: int | None = None) -> SqlError:
    return SqlError(
        f"the SQL cannot be parsed: {reason}; if Spark takes it, write the comment '-- {UNCHECKED}' into it", line
    )


def _place_of(error: dict[str, object]) -> str:
    near = f" near {str(error['highlight'])[:40]!r}" if error.get("highlight") else ""
    return f"line {error.get('line')}, column {error.get('col')}{near}: {error.get('description')}"


def _unclosed(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return "a quote, a comment or a bracket is not closed"
