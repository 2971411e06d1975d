"""`freshline db`: the schema, and the embedded server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import click

from freshline.cli.app import App, json_option, pass_app, project_option, require_database, require_readable
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.embedded_postgres import server as embedded
from freshline.errors import UsageError
from freshline.model.json import Json
from freshline.settings import Settings
from freshline.store.db import migrate
from freshline.store.db.database import masked


@click.group(
    "db",
    epilog=examples_text(["freshline db upgrade", "freshline db status"]),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def db() -> None:
    """Upgrade, look at or stop the database.

    Without FRESHLINE_DATABASE_URL it is the project's embedded PostgreSQL under .freshline/, which starts on demand,
    stops with the last process that uses it, and is upgraded by itself.
    """


@command(
    "upgrade",
    examples=[
        "freshline db upgrade             before processes of this version start",
        "freshline db upgrade --finish    when no older process is left",
    ],
)
@click.option("--finish", is_flag=True, help="Also take away what only older versions use; their processes stop.")
@json_option
@pass_app
def upgrade(app: App, *, finish: bool, as_json: bool) -> None:
    """Bring the database to the schema of this version. Several at once do no harm.

    Processes of the version before go on until --finish, so that a deployment is upgraded one process after another.
    """
    require_database(app.settings)
    require_readable(app.settings)
    with _conninfo(app.settings) as url:
        done = migrate.upgrade(url, finish=finish)
        found = migrate.status(url)
    if as_json:
        state = {"current": found.current, "latest": found.latest, "unfinished": list(found.unfinished)}
        output.print_json({"applied": done, **state})
    elif done:
        output.message(f"applied {', '.join(done)}; the schema is at version {found.current}")
    else:
        output.message(f"the schema is at version {found.current}; there was nothing to do")
    if found.unfinished and not as_json:
        output.message(_unfinished(found.unfinished))


@command("status", examples=["freshline db status", "freshline db status --json"])
@json_option
@pass_app
def status(app: App, *, as_json: bool) -> None:
    """Where the database is and whether its schema fits. Starts nothing."""
    require_database(app.settings)
    require_readable(app.settings)
    found = _external(app.settings) if app.settings.database_url else _embedded(app.settings)
    if as_json:
        output.print_json(found)
        return
    for line in _sentences(found):
        output.message(line)


@command("stop", examples=["freshline db stop"])
@json_option
@pass_app
def stop(app: App, *, as_json: bool) -> None:
    """Stop the project's embedded server. Processes that use it lose their connections."""
    require_database(app.settings)
    if app.settings.database_url:
        raise UsageError(
            "FRESHLINE_DATABASE_URL is set: that server is not ours to stop; unset it to stop the embedded one"
        )
    stopped = embedded.stop(app.settings.home)
    if as_json:
        output.print_json({"stopped": stopped})
    else:
        output.message("the embedded server is stopped" if stopped else "the embedded server was not running")


@command("restored", examples=["freshline db restored"])
@json_option
@pass_app
def restored(app: App, *, as_json: bool) -> None:
    """Confirm that the database was restored from a backup on purpose, after the restore steps of docs/deployment.md.

    The warehouse remembers the last event that it knows of. While the database lacks it, `freshline doctor` reports
    that the database is older, lists tokens that became valid again, and no files are removed. This ends that.
    """
    from freshline.storage.base import storage_at  # noqa: PLC0415 - `--help` must not pay for it
    from freshline.storage.layout import check_warehouse  # noqa: PLC0415
    from freshline.store.doctor.restore import RestoreCheck  # noqa: PLC0415

    with app.store() as store:
        storage = storage_at(store.settings.warehouse_at)
        check_warehouse(storage, store.warehouse_id, make=False)
        lost = RestoreCheck(store.database, storage).accept()
    if as_json:
        output.print_json({"confirmed": lost is not None, "lostPosition": lost.position if lost else None})
    elif lost is None:
        output.message("the database is not older than the warehouse; there was nothing to confirm")
    else:
        output.message(f"confirmed; events after the backup, up to position {lost.position} of {lost.at}, are lost")


for part in (upgrade, status, stop, restored):
    db.add_command(part)


@contextmanager
def _conninfo(settings: Settings) -> Iterator[str]:
    if settings.database_url:
        yield settings.database_url
        return
    with embedded.EmbeddedServer(settings.home) as url:
        yield url


def _external(settings: Settings) -> Json:
    url = settings.database_url or ""
    return {"embedded": False, "running": True, "address": masked(url), "schema": _schema(url)}


def _embedded(settings: Settings) -> Json:
    server = embedded.status(settings.home)
    schema = _schema(server.url) if server.running and server.url else None
    return {
        "embedded": True,
        "running": server.running,
        "address": str(settings.home),
        "pid": server.pid,
        "log": str(server.log),
        "schema": schema,
    }


def _schema(url: str) -> Json:
    found = asdict(migrate.status(url))
    found["newerBreaking"] = found.pop("newer_breaking")
    return found


def _sentences(found: Json) -> Iterator[str]:
    if not found["running"]:
        yield f"the embedded server of {found['address']} is not running; it starts on demand"
        return
    kind = f"the embedded server (pid {found['pid']}) of" if found["embedded"] else "the database"
    yield f"{kind} {found['address']} is running"
    schema = found["schema"]
    if schema["newerBreaking"]:
        yield f"its schema has version {schema['newerBreaking']}, which this freshline does not know; upgrade freshline"
    elif schema["changed"]:
        names = ", ".join(one["name"] for one in schema["changed"])
        yield f"{names}: changed after being applied; install the released Freshline again"
    elif schema["pending"]:
        yield f"its schema is at version {schema['current']} of {schema['latest']}; run `freshline db upgrade`"
    else:
        yield f"its schema is at version {schema['current']}, as this freshline needs it"
        if schema["unfinished"]:
            yield _unfinished(schema["unfinished"])


def _unfinished(names: Sequence[str]) -> str:
    return f"{', '.join(names)}: `freshline db upgrade --finish` when no process of an older version is left"
