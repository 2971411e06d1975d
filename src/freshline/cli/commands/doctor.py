"""`freshline doctor`: checks the invariants, reports violations with a remedy, and repairs what it can."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, limit_option, pass_app, require_database, require_readable
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.text import Text
from freshline.errors import DatabaseError, SchemaError, UsageError
from freshline.model.json import Json

if TYPE_CHECKING:
    from freshline.store.doctor.checks import Finding
    from freshline.store.doctor.readiness import Readiness
    from freshline.store.store import Store

COLOURS = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@command(
    "doctor",
    examples=[
        "freshline doctor",
        "freshline doctor --fix",
        "freshline doctor --deep --asset flights.clean",
        "freshline doctor --ready --process worker    a probe for a worker",
        "freshline doctor --json | jq '.checks[] | select(.count > 0) | .found[]'",
    ],
)
@click.option("--fix", is_flag=True, help="Repair what can be repaired, then check again.")
@click.option("--ready", is_flag=True, help="Only the checks of /readyz: quick, for probes.")
@click.option(
    "--process", type=click.Choice(["materializer", "worker", "api"]), help="With --ready: one is running on this host."
)
@click.option("--deep", is_flag=True, help="Also read every table with Spark, and compare its rows.")
@click.option("--asset", "assets", multiple=True, metavar="ASSET", help="With --deep: only this table. Repeatable.")
@click.option(
    "--minutes", type=click.FloatRange(0), default=60.0, help="With --deep: start no table later. Default: 60."
)
@limit_option(20)
@json_option
@pass_app
def doctor(
    app: App,
    *,
    fix: bool,
    ready: bool,
    process: str | None,
    deep: bool,
    assets: tuple[str, ...],
    minutes: float,
    limit: int,
    as_json: bool,
) -> None:
    """Check the invariants of the database and of the warehouse, while everything is running or stopped.

    Exit code 0: healthy, or everything was repaired. 1: a check failed; up to --limit findings of each are printed.
    Notes do not count as failures. A repair does what a service or an apply would have done; nothing is guessed.

    With --deep, each table is read and the fingerprint of its rows is compared with the published one. This needs
    Spark, takes as long as a query over all tables, and is shown table by table.

    With --ready, exit code 0 means: the database answers, its schema fits, and changes are read within
    FRESHLINE_READY_LAG_MS; with --process also that such a process on this host has announced itself recently.
    """
    if ready:
        _print_readiness(_readiness(app, process), as_json=as_json)
        return
    if process is not None:
        raise UsageError("--process goes with --ready")
    if assets and not deep:
        raise UsageError("--asset goes with --deep")
    found = _examine(app, fix=fix, limit=limit, deep=(assets, minutes) if deep else None)
    if as_json:
        output.print_json(found)
    else:
        _print(found)
    if not found["healthy"]:
        raise click.exceptions.Exit(1)


def _readiness(app: App, process: str | None) -> list[Readiness]:
    from freshline.store.doctor import readiness  # noqa: PLC0415 - `--help` must not pay for the driver

    try:
        with app.store() as store:
            found = readiness.checks(store)
            if process is not None and all(one.ok for one in found):
                found.append(readiness.presence(store, process))
    except (DatabaseError, SchemaError) as error:  # it could not even be opened
        return [readiness.Readiness(error.code, ok=False, detail=str(error))]
    return found


def _print_readiness(found: list[Readiness], *, as_json: bool) -> None:
    ready = all(one.ok for one in found)
    if as_json:
        output.print_json({"ready": ready, "checks": [one.as_json() for one in found]})
    for one in found if not as_json else ():
        output.message(f"{one.name}: {'ok' if one.ok else one.detail}")
    if not ready:
        raise click.exceptions.Exit(1)


def _examine(app: App, *, fix: bool, limit: int, deep: tuple[Sequence[str], float] | None) -> Json:
    from freshline.store.doctor import examine as examiner  # noqa: PLC0415 - `--help` must not pay for the driver

    settings = app.settings
    require_database(settings)
    require_readable(settings)
    if settings.database_url:
        schema = examiner.schema(settings.database_url)
        if schema.count:  # nothing else can be looked at
            return _document([schema], [])
    with app.store(settings) as store:
        found, rest = _look(store, limit)
        repaired = _repair(store, found) if fix else []
        if repaired:
            found, rest = _look(store, limit)
        if deep is not None:
            found += _look_deep(store, limit, *deep)
    return {**_document(found, repaired), **rest}


def _look(store: Store, limit: int) -> tuple[list[Finding], Json]:
    from freshline.delta.examine import examine as examine_logs  # noqa: PLC0415
    from freshline.store.doctor.examine import examine  # noqa: PLC0415
    from freshline.store.doctor.warehouse import Warehouse  # noqa: PLC0415
    from freshline.store.read.session import json_value  # noqa: PLC0415

    seen = examine(store, limit)
    rest = {"at": json_value(seen.at), "clockAheadMs": seen.clock_ms, "materializers": list(seen.materializers)}
    return [*seen.findings, *Warehouse(store).examine(limit), examine_logs(store, limit)], rest


def _look_deep(store: Store, limit: int, assets: Sequence[str], minutes: float) -> list[Finding]:
    """Read the tables with Spark, as the workers do."""
    from freshline.spark import contents  # noqa: PLC0415 - PySpark takes a second to import
    from freshline.spark.application import Application  # noqa: PLC0415
    from freshline.spark.connect import Remote  # noqa: PLC0415

    settings = store.settings
    remote = Remote.of(settings.spark_remote, settings.spark_token) if settings.spark_remote else None
    with tempfile.TemporaryDirectory(prefix="freshline-deep-") as scratch:
        spark = Application.open(master=settings.spark_master, remote=remote, scratch=Path(scratch))
        try:
            examined = contents.examine(
                store, spark.new_session(), assets=assets, limit=limit, minutes=minutes, progress=output.message
            )
        finally:
            spark.close()
    return list(examined)


def _repair(store: Store, found: list[Finding]) -> list[str]:
    """Repair what can be repaired, and return the ids of the checks concerned."""
    from freshline.store.doctor.examine import repair  # noqa: PLC0415
    from freshline.store.doctor.warehouse import STAGING_LEFTOVER, Warehouse  # noqa: PLC0415

    repaired = repair(store, found)
    leftovers = any(one.check is STAGING_LEFTOVER and one.count for one in found)
    if leftovers and Warehouse(store).remove_leftovers():
        repaired.append(STAGING_LEFTOVER.id)
    return repaired


def _document(found: list[Finding], repaired: list[str]) -> Json:
    healthy = all(one.healthy for one in found)
    return {"healthy": healthy, "repaired": repaired, "checks": [one.as_json() for one in found]}


def _print(found: Json) -> None:
    for check in found["checks"]:
        if check["count"]:
            _print_check(check)
    if found["repaired"]:
        output.message(f"repaired: {', '.join(found['repaired'])}")
    bad = sum(check["count"] > 0 and check["severity"] != "note" for check in found["checks"])
    output.message(f"{len(found['checks'])} checks, " + (f"{bad} found something" if bad else "all is well"))


def _print_check(check: Json) -> None:
    severity = (check["severity"], COLOURS[check["severity"]])
    output.show(Text(severity, f" {check['id']}: expected: {check['meaning']}"))
    for sentence in check["found"]:
        output.show(f"  {sentence}")
    if check["count"] > len(check["found"]):
        output.show(f"  … and {check['count'] - len(check['found'])} more")
    output.show(f"  what to do: {check['remedy']}")
