"""`freshline dev`: everything in one process, live."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from freshline import process_environment
from freshline.cli.alert_states import AlertStates
from freshline.cli.app import App, pass_app
from freshline.cli.command import command
from freshline.cli.commands.processes import grace_option, port_option, slots_option, warn_about_root
from freshline.cli.commands.project import directory_argument, show_plan
from freshline.cli.follow import DecisionFollower, EventFollower, Follower
from freshline.cli.render import listing, output
from freshline.cli.render.progress import HANG
from freshline.cli.render.run import print_error
from freshline.cli.render.text import Text
from freshline.cli.signals import stop_signals
from freshline.cli.watch_states import WatchStates
from freshline.definitions.fingerprint import needs_spark
from freshline.definitions.steps import external_inputs
from freshline.errors import DatabaseError, FreshlineError, NotFoundError, UsageError
from freshline.model.enums import EventType
from freshline.plural import counted
from freshline.settings import Settings
from freshline.store.read.report_command import report_command

if TYPE_CHECKING:
    from freshline.api.server import Server
    from freshline.definitions.loading.project import Project
    from freshline.definitions.schema.assets import Source
    from freshline.model.documents.status import Status
    from freshline.store.store import Store

POLL_S = 0.5
SHOWN_AS_LINES = ("step_failed", "run_failed", "watch_failed", "watch_breaker_opened", "alert_failed")
MOST_UNREPORTED = 5
WATCHED = (".yaml", ".yml", ".json", ".toml", ".py", ".sql")


@command("dev", examples=["freshline dev", "freshline dev shop --slots 2", "freshline dev --port 9000"])
@directory_argument
@slots_option
@grace_option
@click.option("--quiet", is_flag=True, help="Do not print events and decisions.")
@port_option
@pass_app
def dev(app: App, *, directory: Path | None, slots: int, grace: float, quiet: bool, port: int | None) -> None:
    """Apply the project and run everything it needs: embedded database, materializer, worker and API, until Ctrl-C.

    Files are watched: a change is applied at once. Its errors are printed, and the last good definitions stay.
    Prints events and decisions as they happen. In another terminal: `freshline status`, `freshline report ASSET`.
    """
    process_environment.leave()
    from freshline.cli.commands.why import explain  # noqa: PLC0415 - imported on demand
    from freshline.services.materializer import Materializer  # noqa: PLC0415
    from freshline.worker.worker import Worker  # noqa: PLC0415 - imported on demand

    settings = _quieter(app.at(directory))
    with stop_signals() as asked, app.store(settings) as store:
        if not quiet:
            _hide_failures(settings)
        warn_about_root()
        server = api_server(store, settings, port)
        activity = Activity(store, quiet=quiet)  # from before the apply, so that what it causes is shown
        watched = Watched(store, settings.project)
        watched.apply()
        services = Materializer(store, settings, explain)
        worker = Worker(store, settings, slots=slots)
        services.start()
        worker.start()
        start_api(server)
        output.message("freshline is running; Ctrl-C stops it")
        if watched.needs_spark:
            output.message("the first run starts Spark, which takes some seconds")
        watched.show_unreported()
        try:
            while not asked.wait(POLL_S):
                tolerate_outage(watched.poll)
                tolerate_outage(activity.show)
        finally:
            if server is not None:
                server.stop()
            worker.stop(grace)
            services.stop()


def api_server(store: Store, settings: Settings, port: int | None) -> Server | None:
    """Bind the port of the API. If it is taken, go on without the API, unless the user named the port."""
    from freshline.api.server import Server  # noqa: PLC0415 - imported on demand

    try:
        where = settings.api_port if port is None else port
        return Server(store, host=settings.api_host, port=where, auth=settings.api_auth)
    except UsageError as error:
        if port is not None:
            raise
        output.message(f"without the API: {error}")
        return None


def start_api(server: Server | None) -> None:
    """Serve the API, and say where."""
    if server is not None:
        server.start()
        output.message(f"the API is at {server.url}/api/v1; open {server.url} in a browser")


def _quieter(settings: Settings) -> Settings:
    """Log only warnings unless the user asked for more: events and decisions are printed anyway."""
    return settings if os.environ.get("FRESHLINE_LOG_LEVEL") else replace(settings, log_level="warning")


def _hide_failures(settings: Settings) -> None:
    """Do not log what `Activity` prints once: failed steps, runs, looks and alerts; unless the user set a level."""
    if not os.environ.get("FRESHLINE_LOG_LEVEL"):
        from freshline.cli import logging_setup  # noqa: PLC0415 - `--help` must not pay for it

        logging_setup.configure(settings, hidden=SHOWN_AS_LINES)


class Watched:
    """The project's files. They are applied again when they change; if they have errors, the last good ones stay."""

    def __init__(self, store: Store, root: Path) -> None:
        self._store = store
        self._root = root
        self._seen = stamps(root)
        self._project: Project | None = None

    def apply(self) -> None:
        """Apply the definitions as they are now, and raise their errors."""
        from freshline.definitions.loading.project import load_project  # noqa: PLC0415 - imported on demand

        project = load_project(self._root)
        show_plan(self._store.apply.diff(project))
        self._store.apply.commit(project)
        self._project = project

    @property
    def needs_spark(self) -> bool:
        """Return whether a workflow of the applied project needs Spark."""
        return self._project is not None and any(needs_spark(one.definition) for one in self._project.workflows)

    def show_unreported(self) -> None:
        """Print which sources must be reported before the workflows that read them can run, and how."""
        if self._project is not None:
            for line in unreported_sources(self._project, self._store.reader.status()):
                output.message(line)

    def poll(self) -> bool:
        """Apply the files if one changed since the last call, and return whether one did."""
        now = stamps(self._root)
        if now == self._seen:
            return False
        try:
            self.apply()
        except DatabaseError:
            raise  # not an error of the files: they are applied when it is back
        except FreshlineError as error:
            output.message(
                f"Error: {error} [{error.code}]\nthe last good definitions stay; fix the files to apply them"
            )
        else:
            self.show_unreported()
        self._seen = now
        return True


class Activity:
    """Prints events, decisions and changed states of watchers and alerts as lines, errors of runs below their events.

    Skips are left out: they say that there is nothing to do. An error that a workflow repeats is printed in one line.
    """

    def __init__(self, store: Store, *, quiet: bool) -> None:
        self._reader = store.reader
        self._errors: dict[str, str] = {}
        self._followers: list[tuple[Follower[Any], listing.Listing[Any]]] = []
        if not quiet:
            self._followers = [
                (EventFollower(store.reader, limit=1), listing.EVENTS),
                (DecisionFollower(store.reader, limit=1), listing.DECISIONS),
            ]
        self._states: tuple[WatchStates | AlertStates, ...] = ()
        if not quiet:
            self._states = (WatchStates(store.reader), AlertStates(store.reader))
        for follower, _ in self._followers:
            follower.poll()

    def show(self) -> None:
        """Print what is new."""
        for follower, kind in self._followers:
            for one in follower.poll():
                if one.get("outcome") != "skip":
                    output.show(kind.line(one), hang=HANG)
                if one.get("type") == EventType.RUN_FAILED:
                    self._show_error(one["data"]["runId"])
        for states in self._states:
            for line in states.poll():
                output.show(line, hang=HANG)

    def _show_error(self, run_id: str) -> None:
        try:
            run = self._reader.run(run_id)
        except NotFoundError:
            return  # it was pruned, or the workflow was removed
        slug, text = run["workflowSlug"], json.dumps(run["error"])
        if self._errors.get(slug) == text:
            output.show(Text((f"  the same error again: {listing.first_line(run['error'])}", "red")), hang=HANG)
        else:
            print_error(run)
        self._errors[slug] = text


def unreported_sources(project: Project, status: Status) -> list[str]:
    """Return a sentence for each consumed source that was never reported: what cannot run, and what to do."""
    unknown = {one["assetId"] for one in status["assets"] if one["workflowSlug"] is None and one["version"] is None}
    watched = {one.definition.asset_id for one in project.sources if one.definition.watch is not None}
    readers: dict[str, list[str]] = {}
    for loaded in project.workflows:
        for item in external_inputs(loaded.definition):
            if item.asset_id in unknown - watched:
                readers.setdefault(item.asset_id, []).append(loaded.definition.slug)
    declared = {one.definition.asset_id: one.definition for one in project.sources}
    lines = [_unreported(one, slugs, declared.get(one)) for one, slugs in sorted(readers.items())]
    rest = len(lines) - MOST_UNREPORTED
    if rest <= 0:
        return lines
    return [*lines[:MOST_UNREPORTED], f"{counted(rest, 'more source was', 'more sources were')} never reported"]


def _unreported(asset_id: str, slugs: list[str], source: Source | None) -> str:
    more = f" and {len(slugs) - 1} more" if len(slugs) > 1 else ""
    path = source.path if source else None
    append = source is not None and path is not None and source.mode == "append"
    first = f"put its data at {path}, then" if path and not append else "report it with"
    command = report_command(
        asset_id, append=append, partitioned=source is not None and source.partitioning is not None
    )
    return f"{slugs[0]}{more} cannot run: {asset_id} was never reported; {first} `{command}`"


def tolerate_outage(poll: Callable[[], object]) -> None:
    """Poll. If the database is away, the services reconnect and the next poll succeeds."""
    import psycopg  # noqa: PLC0415 - help must not load the driver
    import structlog  # noqa: PLC0415 - nor structlog, which imports rich

    try:
        poll()
    except (DatabaseError, psycopg.Error) as error:
        structlog.get_logger("freshline.cli").debug("poll_failed", error=str(error).strip())


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    """Return the time and size of every file that may have definitions."""
    found = {}
    for path in _files(root):
        try:
            stat = path.stat()
        except OSError:
            continue  # it is being replaced; the next poll sees it
        found[str(path)] = (stat.st_mtime_ns, stat.st_size)
    return found


def _files(root: Path) -> Iterator[Path]:
    for directory, below, names in os.walk(root):
        below[:] = [name for name in below if not name.startswith((".", "__"))]
        yield from (Path(directory, name) for name in names if name.endswith(WATCHED))
