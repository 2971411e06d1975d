"""Data checks on the written rows, before anything is published.

One pass evaluates all aggregates, another one all `unique` checks; each query is a separate pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual alias

from freshline.definitions.schema.checks import VIEW, Check
from freshline.errors import CheckError
from freshline.model.json import Json
from freshline.plural import counted as amount  # the counters of checks have this name
from freshline.spark.failures import explain
from freshline.spark.fingerprint import quoted

COUNT, SET = "__freshline_count", "__freshline_set"  # reserved: a table may use any other column
SHOWN = 200  # characters of a value in a message
OF_TABLE = frozenset({"age", "holds"})  # counters over the whole table, not over the written rows
MAX_MESSAGE = 1_000  # characters
MAX_FIELDS = 10  # of a row that a query found

Counters = Mapping[str, Any]  # values of the aggregates of one check, by name


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check. `observed`: the value that decided; `violation`: a sentence about it."""

    check: Check
    passed: bool
    observed: Any
    violation: str

    def as_json(self) -> Json:
        """Return the record that is stored with the snapshot, or with the run that failed."""
        record = {
            "check": self.check.label,
            "severity": self.check.severity,
            "passed": self.passed,
            "observed": _bounded(self.observed),
        }
        return record if self.passed else {**record, "message": _storable(self.violation, MAX_MESSAGE)}


def run_checks(
    written: DataFrame, whole: DataFrame, rows: int, checks: Sequence[Check], *, wrote: int | None = None
) -> list[Result]:
    """Return the outcome of every check, in the declared order. `rows`: of the whole table, known from the write.

    `wrote`: how many of them were written, if not all. Checks of single rows see the written rows; checks of the table
    see the whole table.
    """
    for check in checks:
        _check_columns(whole, check)
    with _evaluating("the checks"):
        counted = {**_count(written, whole, checks), **_repeated(whole, checks)}
    new = rows if wrote is None else wrote
    return [_result(whole, rows, new, check, counted.get(i)) for i, check in enumerate(checks)]


@contextmanager
def _evaluating(what: str) -> Iterator[None]:
    """Raise CheckError if Spark cannot evaluate a check: another try of the step would not help."""
    try:
        yield
    except PySparkException as error:
        raise CheckError(f"{what} cannot be evaluated: {explain(error)}; nothing was published") from None


def _check_columns(table: DataFrame, check: Check) -> None:
    known = {name.lower() for name in table.columns}
    for column in _columns(check):
        if column.lower() not in known:
            raise CheckError(
                f"check {check.label} names column {column!r}, which the table does not have; "
                f"its columns are {', '.join(table.columns)}"
            )


def _columns(check: Check) -> Iterable[str]:
    single = check.accepted or check.range or check.fresh_rows
    return check.not_null or check.unique or ((single.column,) if single else ())


def _count(written: DataFrame, whole: DataFrame, checks: Sequence[Check]) -> Mapping[int, Counters]:
    """Return the aggregates by the check's index: one pass, or two if the written rows are a part of the table."""
    wanted = {(i, name): column for i, check in enumerate(checks) for name, column in _counters(whole, check).items()}
    of_table = {key: column for key, column in wanted.items() if key[1] in OF_TABLE}
    of_rows = {key: column for key, column in wanted.items() if key not in of_table}
    if written is whole:
        return _pass(whole, wanted)
    return {**_pass(written, of_rows), **_pass(whole, of_table)}


def _pass(table: DataFrame, wanted: Mapping[tuple[int, str], Column]) -> Mapping[int, Counters]:
    if not wanted:
        return {}
    row = table.agg(*(column.alias(f"c{n}") for n, column in enumerate(wanted.values()))).collect()[0]
    counted: dict[int, Json] = {}
    for n, (i, name) in enumerate(wanted):
        counted.setdefault(i, {})[name] = row[n]
    return counted


def _counters(table: DataFrame, check: Check) -> dict[str, Column]:
    if check.not_null:
        return {name: F.count_if(F.col(quoted(name)).isNull()) for name in check.not_null}
    if check.accepted:
        column = F.col(quoted(check.accepted.column))
        wrong = column.isNotNull() & ~column.isin(*check.accepted.values)
        return {"count": F.count_if(wrong), "example": F.first(F.when(wrong, column), ignorenulls=True)}
    if check.range:
        column = F.col(quoted(check.range.column))
        return {"count": F.count_if(_outside(column, check)), "min": F.min(column), "max": F.max(column)}
    if check.fresh_rows:
        newest = F.max(F.col(quoted(check.fresh_rows.column)).cast("timestamp"))
        return {"age": F.unix_millis(F.current_timestamp()) - F.unix_millis(newest)}
    if check.sql and not check.is_query:
        with _evaluating(f"check {check.label}"):
            return _expression(table, check.sql)
    return {}


def _outside(column: Column, check: Check) -> Column:
    bounds = check.range
    outside = F.lit(False)  # noqa: FBT003 - a literal of SQL
    if bounds and bounds.min is not None:
        outside = outside | (column < F.lit(bounds.min))
    if bounds and bounds.max is not None:
        outside = outside | (column > F.lit(bounds.max))
    return outside


def _expression(table: DataFrame, sql: str) -> dict[str, Column]:
    """Return the counter of a SQL check. An expression without an aggregate function must hold in every row."""
    violated = F.count_if(~F.coalesce(F.expr(sql), F.lit(True)))  # noqa: FBT003 - a literal of SQL
    try:
        _ = table.agg(violated).schema
    except AnalysisException as error:
        if error.getCondition() != "NESTED_AGGREGATE_FUNCTION":
            raise
        return {"holds": F.coalesce(F.expr(sql), F.lit(True))}  # noqa: FBT003 - a literal of SQL
    return {"count": violated}


def _result(table: DataFrame, rows: int, wrote: int, check: Check, counted: Counters | None) -> Result:
    have = amount(rows, "row")
    match check.kind:
        case "minRows":
            low = check.min_rows or 0
            return Result(check, rows >= low, rows, f"the table has {have}; allowed are {low} or more")
        case "maxRows":
            high = check.max_rows or 0
            return Result(check, rows <= high, rows, f"the table has {have}; allowed are {high} or fewer")
        case "sql" if check.is_query:
            return _query(table, check)
    seen = counted or {}
    match check.kind:
        case "unique":
            return _unique(check, seen)
        case "notNull":
            return _not_null(check, seen)
        case "freshRows":
            return _fresh(check, seen["age"])
        case "sql":
            return _sql(check, seen, rows, wrote)
    return _values(check, seen, wrote)


def _sql(check: Check, seen: Counters, rows: int, wrote: int) -> Result:
    """Return the result of a SQL expression. An aggregate may be false for a table without rows."""
    if "holds" in seen:
        holds = bool(seen["holds"])
        text = f"`{check.sql}` does not hold for the table of {amount(rows, 'row')}"
        return Result(check, holds, 0 if holds else rows, text)
    wrong = seen["count"]
    return Result(check, not wrong, wrong, f"`{check.sql}` does not hold for {wrong:,} of {amount(wrote, 'row')}")


def _not_null(check: Check, seen: Counters) -> Result:
    nulls = {name: count for name, count in seen.items() if count}
    text = ", ".join(f"column {name!r} has {amount(count, 'null')}" for name, count in nulls.items())
    return Result(check, not nulls, nulls or 0, text)


def _values(check: Check, seen: Counters, wrote: int) -> Result:
    """Return the result of `accepted` or `range`: how many values are wrong, and one of them."""
    count = seen["count"]
    if check.accepted:
        allowed = ", ".join(map(repr, check.accepted.values))[:SHOWN]
        example = _plain(seen["example"])
        have = amount(count, "value")
        text = f"column {check.accepted.column!r} has {have} such as {example!r}; allowed are {allowed}"
        return Result(check, not count, {"count": count, "example": example} if count else 0, text)
    low, high = _plain(seen["min"]), _plain(seen["max"])
    bounds = check.range
    column, least, most = (bounds.column, bounds.min, bounds.max) if bounds else ("", None, None)
    text = (
        f"column {column!r} has {count} of {wrote} values out of range: it goes from {low!r} to {high!r}; "
        f"allowed is {'' if least is None else f'{least!r} '}to{'' if most is None else f' {most!r}'}"
    )
    return Result(check, not count, {"count": count, "min": low, "max": high}, text)


def _fresh(check: Check, age: int | None) -> Result:
    fresh = check.fresh_rows
    allowed, column = (fresh.max_age_ms, fresh.column) if fresh else (0, "")
    passed = age is not None and age <= allowed
    newest = "it has no value" if age is None else f"the newest value is {age} ms old"
    return Result(check, passed, age, f"column {column!r}: {newest}; allowed are {allowed} ms")


def _repeated(table: DataFrame, checks: Sequence[Check]) -> Mapping[int, Counters]:
    """Return, for each `unique`, how many keys occur more than once, and one of them; one pass for all."""
    wanted = {i: frozenset(name.lower() for name in check.unique) for i, check in enumerate(checks) if check.unique}
    keys = [name for name in table.columns if any(name.lower() in one for one in wanted.values())]
    if not keys:
        return {}
    sets = [
        [F.col(quoted(name)) for name in keys if name.lower() in one]
        for one in sorted(set(wanted.values()), key=sorted)
    ]
    columns = [F.col(quoted(name)) for name in keys]
    grouped = table.groupingSets(sets, *columns).agg(F.count(F.lit(1)).alias(COUNT), F.grouping_id().alias(SET))
    example = F.first(F.to_json(F.struct(*columns)))
    rows = grouped.where(F.col(COUNT) > 1).groupBy(SET).agg(F.count(F.lit(1)), example).collect()
    found = {row[0]: {"count": row[1], "example": row[2]} for row in rows}
    return {i: found.get(_set_id(keys, one), {"count": 0}) for i, one in wanted.items()}


def _set_id(keys: Sequence[str], chosen: Collection[str]) -> int:
    """Return Spark's number of a grouping set: a bit for each key that is not in it; the first key has the highest."""
    return sum(1 << place for place, name in enumerate(reversed(keys)) if name.lower() not in chosen)


def _unique(check: Check, seen: Counters) -> Result:
    count, first = seen["count"], seen.get("example")
    names = ", ".join(map(repr, check.unique or ()))
    occur = amount(count, "value occurs", "values occur")
    text = f"column {names}: {occur} more than once, such as {(first or '')[:SHOWN]}"
    return Result(check, not count, {"count": count, "example": first} if count else 0, text)


def _query(table: DataFrame, check: Check) -> Result:
    table.createOrReplaceTempView(VIEW)
    found = _first_row(table, check)
    text = f"`{(check.sql or '').strip()[:SHOWN]}` must return no row, but returns {str(found)[:SHOWN]}"
    return Result(check, found is None, found, text)


def _first_row(table: DataFrame, check: Check) -> Json | None:
    with _evaluating(f"check {check.label}"):
        rows = table.sparkSession.sql(check.sql or "").limit(1).collect()
    return {name: _plain(value) for name, value in rows[0].asDict().items()} if rows else None


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _bounded(observed: Any) -> Any:
    """Return `observed` with short texts and few fields, as it is stored for long."""
    if isinstance(observed, dict):
        return {_storable(str(name), SHOWN): _bounded(value) for name, value in list(observed.items())[:MAX_FIELDS]}
    return _storable(observed, SHOWN) if isinstance(observed, str) else observed


def _storable(text: str, most: int) -> str:
    """Return `text` cut, and without NUL, which PostgreSQL rejects."""
    return text[:most].replace("\0", "\ufffd")


def failure(asset_id: str, results: Sequence[Result], staged: str) -> CheckError | None:
    """Return the error for the checks that failed with severity `error`, if there are any."""
    failed = [result for result in results if not result.passed and result.check.severity == "error"]
    if not failed:
        return None
    text = "; ".join(f"check {result.check.label} failed: {result.violation}" for result in failed)
    records = [result.as_json() for result in results]
    return CheckError(f"asset {asset_id!r}: {text}; nothing was published", checks=records, staged=staged)
