"""Mistakes in Spark SQL that can be seen without Spark."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from freshline.definitions.names import suggestion, view_of
from freshline.definitions.schema.checks import VIEW
from freshline.definitions.schema.workflow import Query, SparkSql, Step, Workflow
from freshline.definitions.sql.relations import Relation, relations
from freshline.definitions.steps import view_name
from freshline.definitions.validation.problems import Loc, Problem
from freshline.errors import Place

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

UNCHECKED = "unchecked"
_COMMENT = re.compile(rf"--\s*{UNCHECKED}\b")
_LEADING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_QUERY = frozenset({"select", "with", "from", "values", "table", "map", "reduce"})
# Spark's window function is a keyword to sqlglot; a name of the same length keeps the columns right.
_WINDOW = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)


class Mistake(ValueError):
    """Why a query cannot be parsed, and in which of its lines."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class _Text:
    """A query or a check, and where it stands: in the definition, or in a file of its own."""

    loc: Loc
    query: Query

    def problem(self, message: str, line: int | None = None, *, warning: bool = False) -> Problem:
        place = Place(self.query.file, line) if self.query.file else None
        return Problem(self.loc, message, warning=warning, place=place)

    def at(self, relation: Relation) -> str:
        """The column is worth telling where the line is."""
        return f"column {relation.column} of the SQL" if self.query.file and relation.column else "the SQL"


def sql_problems(workflow: Workflow, known: Mapping[str, str]) -> Iterator[Problem]:
    """Queries and checks that cannot be parsed or read what is not there, and inputs that no query reads.

    `known`: the views of all assets of the project, in lower case, with their ids.
    """
    for index, step in enumerate(workflow.steps):
        queries = list(_queries(index, step))
        checks = list(_checks(index, step))
        read: set[str] | None = set() if queries else None
        for text in queries:
            read = _both(read, (yield from _query_problems(text, step, known)))
        for text in checks:
            read = _both(read, (yield from _check_problems(text, step, known)))
        if read is not None:
            yield from _unused(index, step, read)


def _queries(index: int, step: Step) -> Iterator[_Text]:
    if not isinstance(step.job, SparkSql):
        return
    loc: Loc = ("steps", index, "job")
    for asset_id, query in step.job.queries(step).items():
        if query.text:
            yield _Text((*loc, "outputs", asset_id) if step.job.outputs else (*loc, "sql"), query)


def _checks(index: int, step: Step) -> Iterator[_Text]:
    for p, output in enumerate(step.produces):
        for c, check in enumerate(output.checks):
            if check.sql is not None:
                text = check.sql if check.is_query else f"SELECT {check.sql}"
                yield _Text(("steps", index, "produces", p, "checks", c, "sql"), Query(text))


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    return None if one is None or other is None else one | other


def _query_problems(text: _Text, step: Step, known: Mapping[str, str]) -> Generator[Problem, None, set[str] | None]:
    query = text.query.text
    word = query[_LEADING.match(query).end() :].split(maxsplit=1)[:1]  # type: ignore[union-attr]  # matches always
    if not word or re.split(r"\W", word[0].lower())[0] not in _QUERY:
        yield text.problem(
            f"the SQL starts with {word[0] if word else 'nothing'!r}; allowed are queries: SELECT, WITH, FROM, VALUES"
        )
        return None
    return (yield from _read(text, step, known))


def _check_problems(text: _Text, step: Step, known: Mapping[str, str]) -> Generator[Problem, None, set[str] | None]:
    """A check of a query's rows reads them, and whatever the query may read; Python code may have made more views."""
    return (yield from _read(text, step, known, extra=VIEW, warning=not isinstance(step.job, SparkSql)))


def _read(
    text: _Text, step: Step, known: Mapping[str, str], *, extra: str | None = None, warning: bool = False
) -> Generator[Problem, None, set[str] | None]:
    """The views that it reads, in lower case; None if nobody can tell."""
    try:
        statements = _parsed(text.query.text)
    except Mistake as error:
        hint = f"if Spark takes it, write the comment '-- {UNCHECKED}' into it"
        yield text.problem(f"the SQL cannot be parsed: {error}; {hint}", error.line)
        return None
    if len(statements) != 1:
        if statements:
            yield text.problem(f"the SQL has {len(statements)} statements; allowed is one query")
        return None
    found = {(one.name.lower(), one.qualified): one for one in reversed(_in_order(statements))}
    views = [view_name(item) for item in step.consumes] + ([extra] if extra else [])
    mine = {view.lower() for view in views}
    for (name, qualified), one in reversed(found.items()):
        if qualified:
            yield from _qualified(text, one, known)
        elif name not in mine:
            yield text.problem(_foreign(text, one, views, known.get(name)), one.line, warning=warning)
    return {name for name, qualified in found if not qualified}


def _in_order(statements: list[Expr]) -> list[Relation]:
    return sorted(relations(statements), key=lambda one: (one.line or 0, one.column or 0))


def _foreign(text: _Text, one: Relation, views: list[str], asset_id: str | None) -> str:
    """What is not consumed does not exist in the run; worse, its changes would be nobody's cause to run."""
    said = f"{text.at(one)} reads {one.name!r}, which the step does not consume"
    if asset_id is not None:
        return f"{said}; add {{assetId: {asset_id}}} to 'consumes'"
    hint = suggestion(one.name, views) or "; add its asset to 'consumes'."
    return f"{said}{hint} A table of Spark's own catalogue needs its schema's name or the comment '-- {UNCHECKED}'"


def _qualified(text: _Text, one: Relation, known: Mapping[str, str]) -> Iterator[Problem]:
    """`sales.daily` may be a table of Spark's catalogue; who has an asset of this name probably means that."""
    view = view_of(one.name)
    if known.get(view.lower(), "").lower() == one.name.lower():
        message = f"{text.at(one)} reads {one.name!r} from Spark's catalogue; the asset is read as {view!r}"
        yield text.problem(message, one.line, warning=True)


def _unused(index: int, step: Step, read: AbstractSet[str]) -> Iterator[Problem]:
    for position, item in enumerate(step.consumes):
        if view_name(item).lower() not in read:
            message = "is consumed, but no query of the step reads it; its changes cause runs that change nothing"
            yield Problem(("steps", index, "consumes", position), message, warning=True)


def _parsed(query: str) -> list[Expr]:
    """The statements; none if the user asked not to look."""
    if _COMMENT.search(query):
        return []
    import sqlglot  # noqa: PLC0415  # half a second that commands without definitions do not pay
    from sqlglot.errors import ParseError, SqlglotError  # noqa: PLC0415

    readable = _WINDOW.sub("wind0w", query)
    for dialect in ("databricks", "spark"):  # what either can read is left to Spark
        try:
            return [statement for statement in sqlglot.parse(readable, dialect=dialect) if statement is not None]
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            mistake = Mistake(_place_of(first) if first else str(error), first.get("line"))
        except (SqlglotError, RecursionError) as error:
            mistake = Mistake(_unclosed(error))
    raise mistake


def _place_of(error: dict[str, object]) -> str:
    near = f" near {str(error['highlight'])[:40]!r}" if error.get("highlight") else ""
    return f"line {error.get('line')}, column {error.get('col')}{near}: {error.get('description')}"


def _unclosed(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return "a quote, a comment or a bracket is not closed"
