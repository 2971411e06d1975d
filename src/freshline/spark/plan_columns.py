"""The columns that an analysed plan of Spark reads of each view: those that its operators mention.

The text of the plan is the same on a Connect server, where the plan itself is out of reach. An attribute is `name#12`;
a view lists its attributes in the order of its columns. What is below a view is how the view is made, not what the
query reads. Operators that are not listed here read whole rows, among them limits and samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from freshline.definitions.sql.lint import SqlError, parsed
from freshline.definitions.sql.read_columns import read_columns

OPERATORS = frozenset(
    {
        "Aggregate",
        "CTERelationDef",
        "CTERelationRef",
        "Distinct",
        "Except",
        "Filter",
        "Intersect",
        "Join",
        "Project",
        "Sort",
        "SubqueryAlias",
        "Union",
        "View",
        "Window",
        "WithCTE",
    }
)
MOST_FIELDS = "spark.sql.debug.maxToStringFields"
ALL_FIELDS = 1_000_000
_LINE = re.compile(r"(?P<tree>[ :+\-]*)(?P<operator>\w+)(?P<rest>.*)")
_VIEW = re.compile(r" \(`(?P<name>\w+)`, \[(?P<attributes>.*)\]\)$")
_ATTRIBUTE = re.compile(r"#(\d+)L?(?=\W|$)")
_LISTED = re.compile(r"#(\d+)L?(?=, |$)")
_MISLEADING = re.compile(r"[#\n\r]")


def analysed_plan(table: DataFrame, *, classic: bool) -> str:
    """Return the text of the analysed plan, with all columns."""
    if classic:
        # Its `toString` follows the settings of the session that is active in the JVM, which may be another one.
        analysed = table._jdf.queryExecution().analyzed()  # noqa: SLF001
        return str(analysed.treeString(True, False, ALL_FIELDS, False, False))  # noqa: FBT003 - as in Spark
    conf = table.sparkSession.conf
    before = conf.get(MOST_FIELDS)
    conf.set(MOST_FIELDS, str(ALL_FIELDS))
    try:
        shown = str(table._explain_string(extended=True))  # noqa: SLF001
    finally:
        conf.set(MOST_FIELDS, str(before))
    analysed = shown.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    return analysed.strip().partition("\n")[2]  # its first line has the columns of the result


def columns_of(text: str, plan: str, views: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]] | None:
    """Return the columns that a query reads of each view, by its name in lower case; None: it reads whole rows.

    `views`: the columns of each view. Two analyses must agree: that of the text, and that of Spark's plan.
    """
    if any(_MISLEADING.search(name) for names in views.values() for name in names):
        return None
    try:
        statements = parsed(text)
    except SqlError:
        return None
    wanted = read_columns(statements[0], views) if len(statements) == 1 else None
    if wanted is None or _has_misleading_literal(text):
        return None
    return wanted if wanted == plan_columns(plan, {view.lower(): names for view, names in views.items()}) else None


def _has_misleading_literal(text: str) -> bool:
    """Return whether a constant of the query could look like an attribute or an operator of the plan."""
    return any(_MISLEADING.search(literal) for literal in re.findall(r"'[^']*'|\"[^\"]*\"|`[^`]*`", text))


def plan_columns(plan: str, views: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]] | None:
    """Return the columns that the operators of an analysed plan mention; None: it reads whole rows."""
    owners: dict[str, tuple[str, str]] = {}
    mentioned: set[str] = set()
    found: dict[str, set[str]] = {}
    for operator, rest in _operators(plan):
        if operator not in OPERATORS:
            return None
        if operator != "View":
            mentioned.update(_ATTRIBUTE.findall(rest))
            continue
        view = _VIEW.match(rest)
        columns = views.get(view["name"].lower()) if view else None
        attributes = _LISTED.findall(view["attributes"]) if view else []
        if view is None or columns is None or len(attributes) != len(columns):
            return None
        found.setdefault(view["name"].lower(), set())
        owners |= {one: (view["name"].lower(), name.lower()) for one, name in zip(attributes, columns, strict=True)}
    for one in mentioned & owners.keys():
        view_name, column = owners[one]
        found[view_name].add(column)
    return {name: frozenset(columns) for name, columns in found.items()}


def _operators(plan: str) -> Iterator[tuple[str, str]]:
    """Yield the operators with their arguments, without what is below views, and other lines without a name."""
    below: int | None = None
    for line in plan.strip().splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            yield "", line
            continue
        depth = len(match["tree"])
        if below is not None and depth > below:
            continue
        below = depth if match["operator"] == "View" else None
        yield match["operator"], match["rest"]
