"""`freshline run` and `cancel`: manual runs."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.error_handling import INTERRUPTED
from freshline.cli.render import output
from freshline.cli.render.format import between, short
from freshline.cli.render.listing import ending
from freshline.cli.render.progress import Progress, progress
from freshline.cli.render.references import named, unit
from freshline.cli.render.run import check_lines, output_text
from freshline.cli.render.text import Text
from freshline.errors import ConfirmationError, NotFoundError, UsageError
from freshline.model.documents.run import RunDetail
from freshline.unmatched import unknown_parameters

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import Backend


POLL_S = 0.3
QUEUED_LONG_S = 5


@command(
    "run",
    examples=[
        "freshline run flights-delay",
        "freshline run flights-delay --param day=2013-01-04 --param limit=10 --wait",
        "freshline run flights-delay --full-refresh",
        "freshline run flights.delay.hourly    the workflow that makes this asset",
        "freshline run sales.daily --partition 2024-01-31 --wait",
        "freshline run flights-delay --json",
    ],
)
@click.argument("name", metavar="SLUG|ASSET")
@click.option("--partition", metavar="KEY", default="", help="The partition to compute, such as 2024-01-31.")
@click.option(
    "--param", "parameters", metavar="K=V", multiple=True, help="A parameter; V is JSON, else text. Repeatable."
)
@click.option("--key", help="Asking twice with the same key makes one run.")
@click.option("--wait", is_flag=True, help="Wait until it ends; exit code 1 unless it succeeded.")
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Rewrite tables that are otherwise appended to or merged. Asks if rows cannot be computed again.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask: drop rows that cannot be computed again.")
@json_option
@pass_app
def run(
    app: App,
    *,
    name: str,
    partition: str,
    parameters: tuple[str, ...],
    key: str | None,
    wait: bool,
    full_refresh: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Run a workflow now, on the current versions of its inputs. An asset stands for the workflow that produces it.

    Manual runs ignore holds, pauses and cooldowns and go before automatic ones; their success counts like any other.
    """
    values = dict(_parameter(one) for one in parameters)
    with app.backend() as store:
        slug = _workflow(store, name)
        asked = RunRequest(slug, partition, values, key, full_refresh)
        run_id = _request(store, asked, yes=yes)
        if values:
            output.warn(unknown_parameters(slug, values, store.reader.workflow(slug)["definition"]))
        found = _wait_or_leave(store, run_id, quiet=as_json) if wait else store.reader.run(run_id)
    if as_json:
        output.print_json(found)
    elif not wait:
        output.message(
            f"run {short(run_id)} of {unit(found)} is {found['status']}; `freshline logs {short(run_id)} -f` follows it"
        )
    else:
        _print_end(found)
    if wait and found["status"] != "succeeded":
        raise SystemExit(1)


@command("cancel", examples=["freshline cancel 5f0c11aa", "freshline cancel 5f0c11aa --reason 'wrong day'"])
@click.argument("run")
@click.option("--reason", default="canceled by a user", show_default=True, help="Stored with the run.")
@json_option
@pass_app
def cancel(app: App, *, run: str, reason: str, as_json: bool) -> None:
    """Cancel a queued or running run. RUN is its id or the end of it.

    An automatic run is not asked for again with the same versions; new data, `freshline run` or `freshline reset`
    ends that. A running run stops within seconds: its Spark jobs are canceled, its files removed, and a runner that
    does not come back in time is replaced.
    """
    with app.backend() as store:
        run_id = store.reader.find_run(run)
        status = store.operations.cancel(run_id, reason)
    if as_json:
        output.print_json({"runId": run_id, "status": status})
    elif status == "running":
        output.message(f"run {short(run_id)} was asked to stop")
    elif status in {"succeeded", "failed"}:
        output.message(f"run {short(run_id)} {status} already; nothing is canceled")
    else:
        output.message(f"run {short(run_id)} is {status}")


def _workflow(store: Backend, name: str) -> str:
    """Return the slug of the workflow to run. A slug wins over an asset of the same name."""
    found = store.reader.find(name)
    if "slug" in found:
        return name
    try:
        return store.reader.workflow(name)["slug"]
    except NotFoundError:
        slug = found["workflowSlug"]
    if slug is None:
        raise UsageError(
            f"asset {name!r} is a source; no workflow produces it",
            hint=f"`freshline report {name}` says that it changed",
        )
    return slug


class RunRequest(NamedTuple):
    """The run that a user asks for."""

    slug: str
    partition_key: str
    parameters: dict[str, Any]
    key: str | None
    full_refresh: bool

    def send(self, store: Backend, *, confirm: bool) -> str:
        """Queue the run and return its id."""
        return store.operations.request_run(
            self.slug,
            self.parameters,
            key=self.key,
            partition_key=self.partition_key,
            full_refresh=self.full_refresh,
            confirm=confirm,
        )


def _request(store: Backend, asked: RunRequest, *, yes: bool) -> str:
    """Queue the run. Ask on a terminal before a full refresh drops rows that cannot be computed again."""
    try:
        return asked.send(store, confirm=yes)
    except ConfirmationError as error:
        if not _on_a_terminal():
            raise
        output.message(error.message)
        if not click.confirm("Drop these rows?", err=True):
            output.message("nothing was done")
            raise SystemExit(1) from None
        return asked.send(store, confirm=True)


def _on_a_terminal() -> bool:
    return sys.stdin.isatty()


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--param {text!r} has no name and value; allowed is NAME=VALUE, e.g. --param day=2013-01-04")
    try:
        return name.strip(), json.loads(value)
    except json.JSONDecodeError:
        return name.strip(), value


def _wait_or_leave(store: Backend, run_id: str, *, quiet: bool) -> RunDetail:
    """Wait for the end of the run. On Ctrl-C say that the run goes on."""
    try:
        return _wait(store, run_id, quiet=quiet)
    except KeyboardInterrupt:
        run = short(run_id)
        output.message(f"run {run} goes on; `freshline logs {run} -f` follows it, `freshline cancel {run}` stops it")
        raise SystemExit(INTERRUPTED) from None


def _wait(store: Backend, run_id: str, *, quiet: bool) -> RunDetail:
    """Wait for the end of the run and return it. Progress is shown on stderr; `quiet`: only on a terminal."""
    began = time.monotonic()
    noted = False
    with progress(sys.stderr) as shown:
        while True:
            found = store.reader.run(run_id)
            if found["finishedAt"] is not None:
                return found
            if not quiet or sys.stderr.isatty():
                shown.update([found])
            if not noted and found["status"] == "queued" and time.monotonic() - began > QUEUED_LONG_S:
                noted = _print_notes(store, shown)
            time.sleep(POLL_S)


def _print_notes(store: Backend, shown: Progress) -> bool:
    for note in store.reader.status()["notes"]:
        shown.print(Text(f"note: {note}"))
    return True


def _print_end(run: RunDetail) -> None:
    took = between(run["startedAt"], run["finishedAt"])
    output.message(f"run {short(run['id'])} of {unit(run)} {run['status']} after {took} {ending(run)}".rstrip())
    for made in run["outputs"]:
        output.message(f"  {named(made)} {output_text(made)}")
        for line in check_lines(made["checks"] or ()):
            output.message(f"  {line.plain}")
    if run["status"] == "failed":
        output.message(f"`freshline runs {short(run['id'])}` shows more")
