"""`freshline table`: the versions of an asset's table, and its Delta log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, limit_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.format import differing, moment, number, size
from freshline.cli.render.table import Column, Columns, Table
from freshline.errors import FreshlineError, WarehouseError
from freshline.model.documents.asset import Snapshot
from freshline.model.json import Json
from freshline.model.state import reference
from freshline.plural import counted

if TYPE_CHECKING:
    from freshline.storage.base import Storage
    from freshline.store.store import Store
    from freshline.store.tables.versions import RolledBack

BATCH = 500
VERSIONS: Columns = [
    "VERSION",
    Column("TABLE", drop=1),
    "PRODUCED",
    "ROWS",
    Column("SIZE", drop=2),
    Column("CODE", drop=3),
    Column("WHAT CHANGED", wraps=24),
]


@click.group(
    "table",
    epilog=examples_text(
        [
            "freshline table versions flights.clean",
            "freshline table rollback flights.clean --to 3",
            "freshline table vacuum flights.clean",
            "freshline table repair flights.clean",
            "freshline table repair --all    after a restore",
        ]
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def table() -> None:
    """List, roll back, vacuum or repair the versions of an asset's table."""


@command(
    "versions",
    examples=[
        "freshline table versions flights.clean",
        "freshline table versions sales.daily --partition 2024-01-31",
        "freshline table versions flights.clean --json",
    ],
)
@click.argument("asset")
@click.option("--partition", metavar="KEY", help="The versions in which this partition changed.")
@limit_option(20)
@json_option
@pass_app
def versions(app: App, *, asset: str, partition: str | None, limit: int, as_json: bool) -> None:
    """List the versions of an asset, newest first: when, how many rows, and the difference from the one before.

    Of a partition, TABLE is the version of the table: the one that `show` and `table rollback` take. CODE is the
    version of the workflow that introduced the job which made the rows; of several jobs, how many rows each made.
    """
    with app.reader() as reader:
        found = reader.snapshots(asset, limit, partition=partition, changed=partition is not None)
    if as_json:
        about = {"partitionKey": found[0]["partitionKey"] if found else partition} if partition else {}
        output.print_json({"assetId": asset, **about, "versions": [_version(one) for one in found]})
        return
    if not found:
        output.message(f"{reference(asset, partition or '')} was never produced; `freshline why {asset}` says why")
    elif any(one["partitionKey"] for one in found) and partition is None:
        output.show(Table.of(["PARTITION", *VERSIONS], [[one["partitionKey"], *_cells(one)] for one in found]))
    else:
        output.show(Table.of(VERSIONS, [_cells(one) for one in found]))


def _version(one: Snapshot) -> Json:
    return {
        **({"partitionKey": one["partitionKey"]} if one["partitionKey"] else {}),
        "version": one["version"],
        "tableVersion": one["tableVersion"],
        "dataVersion": one["dataVersion"],
        "changed": one["changed"],
        "producedAt": one["producedAt"],
        "rows": one["rows"],
        "bytes": one["bytes"],
        "runId": one["runId"],
        "difference": one["difference"],
        "code": one["code"],
        "head": one["head"],
        "goneAt": one["goneAt"],
    }


def _cells(one: Snapshot) -> list[str]:
    return [
        f"{one['version']}{' *' if one['head'] else ''}",
        "" if one["tableVersion"] is None else str(one["tableVersion"]),
        moment(one["producedAt"]),
        "" if one["rows"] is None else number(one["rows"]),
        "" if one["bytes"] is None else size(one["bytes"]),
        _code(one),
        "not kept any more" if one["goneAt"] else _changed(one),
    ]


def _code(one: Snapshot) -> str:
    """Return which versions of the workflow made the rows; of several also how many."""
    parts = one["code"] or ()
    names = [f"v{part['workflowVersion']}" if part["workflowVersion"] else "older" for part in parts]
    if len(names) < 2:  # noqa: PLR2004 - only several are told apart
        return "".join(names)
    return ", ".join(f"{name}: {number(part['rows'])}" for name, part in zip(names, parts, strict=True))


def _changed(one: Snapshot) -> str:
    return differing(one["difference"] or {}) if one["changed"] else "nothing"


@command(
    "rollback",
    examples=[
        "freshline table rollback flights.clean --to 3",
        "freshline table rollback sales.daily --partition 2024-01-31 --to 7",
    ],
)
@click.argument("asset")
@click.option("--partition", metavar="KEY", default="", help="The partition to roll back; the version is of the table.")
@click.option(
    "--to", "version", metavar="N", type=click.IntRange(0), required=True, help="`table versions` lists them."
)
@json_option
@pass_app
def rollback(app: App, *, asset: str, partition: str, version: int, as_json: bool) -> None:
    """Make an earlier version current again, as a new version with the same rows. No data is copied or lost.

    Consumers run as after any other change. The workflow that makes the asset goes on from there: repair or pause it
    first, or its next run may undo the rollback.
    """
    with app.store() as store:
        made = store.tables.rollback(asset, version, partition_key=partition)
    if as_json:
        output.print_json(_json(asset, made) | ({"partitionKey": partition} if partition else {}))
    else:
        how = "" if made.changed else ", as before"
        name = reference(asset, partition)
        output.message(f"{name} is at version {made.sequence}{how}, with the rows of version {version}")


@command("vacuum", examples=["freshline table vacuum flights.clean", "freshline table vacuum --all"])
@click.argument("asset", required=False)
@click.option("--all", "everything", is_flag=True, help="All tables.")
@json_option
@pass_app
def vacuum(app: App, *, asset: str | None, everything: bool, as_json: bool) -> None:
    """Mark versions beyond their retention, and delete the files of those that were marked some minutes ago.

    The materializer does this by itself. Heads, what runs are pinned to, and what `keepVersions` and `keep` hold stays.
    """
    if (asset is None) != everything:
        raise click.UsageError("name an asset, or use --all")
    with app.store() as store:
        storage = own_warehouse(store)
        if asset is not None:
            store.reader.find(asset)
        found = _vacuum(store, storage, asset)
    if as_json:
        output.print_json(found)
    else:
        output.message(f"{counted(found['marked'], 'version')} marked, the files of {found['removed']} removed")


def _vacuum(store: Store, storage: Storage, asset: str | None) -> Json:
    from freshline.store.tables.vacuum import clean  # noqa: PLC0415 - `--help` must not pay for it

    marked, removed, after = 0, 0, ""
    while True:
        page = store.tables.mark_versions(after, BATCH, only=asset)
        marked += page.marked
        if page.last is None or page.tables < BATCH:
            break
        after = page.last
    while (done := clean(store, storage, BATCH, only=asset)) > 0:
        removed += done
    return {"marked": marked, "removed": removed}


@command("repair", examples=["freshline table repair flights.clean", "freshline table repair --all"])
@click.argument("asset", required=False)
@click.option("--all", "everything", is_flag=True, help="All tables: a step of a restore.")
@json_option
@pass_app
def repair(app: App, *, asset: str | None, everything: bool, as_json: bool) -> None:
    """Rewrite the table's Delta log from the database, so that other engines read what the database says.

    A correct log stays as it is. The data files are not touched, and readers see a whole table at any time. Commits
    that the database does not know, by other writers or of a time that a restore has lost, are moved to
    _delta_log_lost beside the log. With --all this includes whole logs of tables that the database does not know.
    """
    if (asset is None) != everything:
        raise click.UsageError("name an asset, or use --all")
    with app.store() as store:
        if asset is None:
            _repair_all(store, as_json=as_json)
            return
        newest = _rewrite_log(store, own_warehouse(store), asset)
    if as_json:
        output.print_json({"assetId": asset, "tableVersion": newest})
    else:
        output.message(f"the Delta log of {asset} is right, up to table version {newest}")


def _repair_all(store: Store, *, as_json: bool) -> None:
    """Rewrite all logs. A failure does not keep the others from being repaired."""
    from freshline.delta.unknown_logs import clear_unknown_logs  # noqa: PLC0415 - `--help` must not pay for it

    storage, right, failed, after = own_warehouse(store), [], {}, ""
    while page := store.tables.logged(after, BATCH):
        for one in page:
            try:
                _rewrite_log(store, storage, one.asset_id)
                right.append(one.asset_id)
            except (FreshlineError, OSError) as error:
                failed[one.asset_id] = str(error)
        after = page[-1].asset_id
    cleared = clear_unknown_logs(store, storage)
    if as_json:
        output.print_json({"repaired": right, "cleared": cleared, "failed": failed})
    else:
        for name, trouble in failed.items():
            output.message(f"the Delta log of {name} could not be repaired: {trouble}")
        for name in cleared:
            output.message(f"the database has no version of the table {name}; its commits are in _delta_log_lost")
        output.message(
            f"the Delta logs of {counted(len(right), 'table')} are right, {len(failed)} could not be repaired"
        )
    if failed:
        raise click.exceptions.Exit(1)


def _rewrite_log(store: Store, storage: Storage, asset: str) -> int:
    """Rewrite the log of a table, and return its newest version."""
    from freshline.delta.sync import DeltaSync  # noqa: PLC0415 - `--help` must not pay for it

    return store.tables.rewrite_log(asset, DeltaSync(storage).rebuild)


def own_warehouse(store: Store) -> Storage:
    """Return the warehouse of this database. Raise `WarehouseError` if another one is configured."""
    from freshline.storage.base import storage_at  # noqa: PLC0415 - as above
    from freshline.storage.layout import is_ours  # noqa: PLC0415 - `--help` must not pay for it

    storage = storage_at(store.settings.warehouse_at)
    if not is_ours(storage, store.warehouse_id):
        raise WarehouseError(
            f"{storage} is not the warehouse of this database, or cannot be read",
            hint="set FRESHLINE_WAREHOUSE to it",
        )
    return storage


def _json(asset: str, made: RolledBack) -> Json:
    return {
        "assetId": asset,
        "version": made.sequence,
        "dataVersion": made.data_version,
        "tableVersion": made.table_version,
        "changed": made.changed,
    }


for _command in (versions, rollback, vacuum, repair):
    table.add_command(_command)
