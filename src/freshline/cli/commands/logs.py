"""`freshline logs`: the output of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from freshline.api import MAX_PAGE
from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.filters import period, refuse_period, since_option, until_option
from freshline.cli.render import output
from freshline.cli.render.format import moment, short
from freshline.cli.render.run import print_error
from freshline.cli.render.text import Text
from freshline.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import ReadOnlyBackend
    from freshline.model.documents.run import LogLine


POLL_S = 0.5


@command(
    "logs",
    examples=[
        "freshline logs 5f0c11aa",
        "freshline logs 5f0c11aa --follow",
        "freshline logs 5f0c11aa --tail 20",
        "freshline logs sales.daily                           its last run",
        "freshline logs sales.daily --partition 2024-01-31    the last run of it",
        "freshline logs 5f0c11aa --json",
    ],
)
@click.argument("run", metavar="RUN|ASSET|SLUG")
@click.option("--partition", metavar="KEY", help="The last run of this partition of an asset or a workflow.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run ends.")
@click.option("--tail", metavar="N", type=click.IntRange(1, MAX_PAGE), help="Only the last N lines.")
@since_option
@until_option
@json_option
@pass_app
def logs(
    app: App,
    *,
    run: str,
    partition: str | None,
    follow: bool,
    tail: int | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """Show what a run printed and logged, step by step, and its error. RUN is its id or the end of it.

    Of an asset or a workflow the last run is shown. If it has partitions, --partition says which one.
    """
    with app.read_backend() as reader:
        run_id = _find_run(reader, run) if partition is None else _last_run(reader, run, partition)
        if follow:
            refuse_period(since, until)
            for one in _follow(reader, run_id, tail):
                _print(one, as_json=as_json)
            if not as_json:
                print_error(reader.run(run_id))
            return
        found = reader.logs(run_id, tail=tail, period=period(reader, since, until))
        ended = reader.run(run_id)
    if as_json:
        output.print_json(found)
        return
    for one in found:
        _print(one, as_json=False)
    print_error(ended)
    if not found:
        output.message(f"run {run_id} printed nothing{' then' if since or until else ''}")


def _find_run(reader: ReadOnlyBackend, text: str) -> str:
    """Return the id of a run, or that of the last run of an asset or a workflow without partitions."""
    try:
        return reader.find_run(text)
    except (UsageError, NotFoundError) as error:
        try:
            found = reader.find(text)
        except NotFoundError:
            raise error from None
        kind, option = ("workflow", "--workflow") if "slug" in found else ("asset", "--asset")
        if any(one["partitions"] for one in reader.status(text)["assets"]):
            raise UsageError(
                f"{text!r} is not a run id but {'an' if kind == 'asset' else 'a'} {kind}",
                hint=f"`freshline logs {text} --partition KEY` shows the last run of a partition; "
                f"`freshline runs {option} {text}` lists its runs",
            ) from None
    run_id = _last_run(reader, text, None)
    output.message(f"the last run of {text} is {short(run_id)}; `freshline runs {option} {text}` lists all")
    return run_id


def _last_run(reader: ReadOnlyBackend, name: str, partition: str | None) -> str:
    found = reader.find(name)
    if "slug" in found:
        runs = reader.runs(1, workflow=name, partition=partition)
    else:
        runs = reader.runs(1, asset=name, partition=partition)
    if runs:
        return runs[0]["id"]
    if partition is None:
        raise NotFoundError(f"{name!r} was never run", hint=f"`freshline why {name}` says why")
    raise NotFoundError(
        f"partition {partition!r} of {name!r} was never run", hint=f"`freshline partitions {name}` lists states"
    )


def _follow(reader: ReadOnlyBackend, run_id: str, tail: int | None) -> Iterator[LogLine]:
    """Yield lines as they come, from the last `tail` on.

    The status is read before the lines, so that the last ones are not missed.
    """
    last, ended = -1, False
    while not ended:
        ended = reader.run(run_id)["finishedAt"] is not None
        found = reader.logs(run_id, after=last, tail=tail)
        tail = None
        yield from found
        last = found[-1]["line"] if found else last
        if not found and not ended:
            time.sleep(POLL_S)


def _print(one: LogLine, *, as_json: bool) -> None:
    if as_json:
        output.print_json(one, line=True)
        return
    style = "red" if one["stream"] == "stderr" else ""
    line = Text((f"{moment(one['at'])} {one['stepId']} ", "dim"), (one["text"], style))
    output.write_line(line, sys.stdout)
