"""Jobs of the harness. A source's payload says which numbers it has."""

from __future__ import annotations

from typing import Any


def numbers(ctx: Any) -> Any:
    """Return the numbers that the source was reported with."""
    return ctx.spark.createDataFrame([(n,) for n in ctx.inputs["source"].payload], "n long")


def wide(ctx: Any) -> Any:
    """Return the rows that the source was reported with, of four columns or five."""
    rows = [tuple(row) for row in ctx.inputs["source"].payload]
    names = "abcde"[: len(rows[0])]
    return ctx.spark.createDataFrame(rows, ", ".join(f"{name} int" for name in names))


def widening(ctx: Any) -> Any:
    """Return the numbers, with a second column from the number 4 on."""
    found = numbers(ctx)
    return found.selectExpr("n", "n * 2 AS twice") if max(ctx.inputs["source"].payload) > 3 else found


def unseen(ctx: Any) -> Any:
    """Return the numbers of the source that the table `unseen`, which this job produces, does not have yet."""
    found = ctx.spark.createDataFrame([(n,) for n in ctx.inputs["source"].payload], "n long")
    return found.join(ctx.inputs["unseen"].df(), "n", "left_anti") if "unseen" in ctx.inputs else found


def doubled(ctx: Any) -> Any:
    """Twice each number that is new; says how it read."""
    ctx.log.info("full refresh" if ctx.full_refresh else "increment")
    return ctx.new("numbers").selectExpr("n", "n * 2 AS twice")


def change(ctx: Any) -> Any:
    """How many rows more than two versions ago."""
    known = ctx.inputs["numbers"]
    return ctx.spark.createDataFrame([(known.df().count() - known.at(known.version - 2).count(),)], "more long")


def numbers_if_any(ctx: Any) -> Any:
    """Return the numbers of the source; without any, the table is left out."""
    return {"numbers": numbers(ctx)} if ctx.inputs["source"].payload else {}


def doubled_if_any(ctx: Any) -> Any:
    """Twice each number that is new, if there is a table of them."""
    return doubled(ctx) if "numbers" in ctx.inputs else ctx.spark.createDataFrame([], "n long, twice long")


def seen(ctx: Any) -> Any:
    """Produce nothing; log which numbers are new."""
    ctx.log.info("new: %s", sorted(row.n for row in ctx.new("numbers").collect()))
    return {}


def copied(ctx: Any) -> Any:
    """Return the rows of the source `files` that are new."""
    return ctx.new("files")


def fails_at_the_last_row(ctx: Any) -> Any:
    """When most of the rows are written."""
    return ctx.spark.range(0, 1000, 1, 4).selectExpr("id", "if(id = 999, raise_error('the last row'), id) AS n")


def collected(ctx: Any) -> Any:
    """Return the rows of the only input, after it was read once; an error is raised again with its text."""
    (only,) = ctx.inputs.values()
    table = only.df()
    try:
        table.collect()
    except Exception as error:
        raise RuntimeError(f"no rows: {error}") from error
    return table


def day_of_hours(ctx: Any) -> Any:
    """Return what the run knows of its partition, as one row."""
    hours, window = ctx.inputs["raw"], ctx.partition_window
    row = (
        ctx.partition_key,
        list(ctx.partition_keys),
        window.start,
        window.end,
        list(hours.keys),
        hours.df().count(),
        ctx.full_refresh,
    )
    kinds = "key string, keys array<string>, start timestamp, end timestamp, hours array<string>, n long, full boolean"
    return ctx.spark.createDataFrame([row], kinds)


def changed_days(ctx: Any) -> Any:
    """Log which partitions of the input have changed, and return them."""
    changed = ctx.changed_partitions("daily")
    ctx.log.info("changed: %s", " ".join(changed))
    return ctx.spark.createDataFrame([(key,) for key in changed], "key string")


def balance(ctx: Any) -> Any:
    """Add the numbers of the day to the balance of the day before."""
    before = ctx.inputs["balance"].df().first() if "balance" in ctx.inputs else None
    today = ctx.inputs["raw"].df().first()
    return ctx.spark.createDataFrame([((before.n if before else 0) + today.n,)], "n long")


def days_of_rows(ctx: Any) -> Any:
    """Return all rows of the batch, and what the run knows of its partitions."""
    window = ctx.partition_window
    ctx.log.info("batch: %s; %s to %s", " ".join(ctx.partition_keys), window.start.date(), window.end.date())
    return ctx.inputs["raw"].df().selectExpr("n", "CAST(d AS DATE) AS day")


def key_of_a_batch(ctx: Any) -> Any:
    """Ask for the key, which a batch does not have."""
    return ctx.partition_key
