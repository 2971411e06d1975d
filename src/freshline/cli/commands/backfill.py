"""`freshline backfill`: compute partitions again, and see how far that is."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from freshline.cli.app import App, json_option, limit_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.backfills import BACKFILLS, cells, detail_parts, preview_parts, proposal_hint
from freshline.cli.render.format import parse_when, short
from freshline.cli.render.table import Table
from freshline.cli.render.text import Text
from freshline.errors import NotFoundError, UsageError
from freshline.model.backfill import (
    DEFAULT_CONCURRENCY,
    DEFAULT_PRIORITY,
    OPEN,
    BackfillPolicy,
    BackfillRequest,
    BackfillStatus,
    Only,
)

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import Backend
    from freshline.model.documents.backfill import BackfillDetail

POLL_S = 1.0
MOST_SEARCHED = 1_000
FULL_ID = 36
EXAMPLES = [
    "freshline backfill sales.daily --from 2024-01-01 --to 2024-12-31 --dry-run",
    "freshline backfill sales.daily --only failed --yes",
    "freshline backfill sales.daily --keys 2024-01-31,2024-02-29 --downstream",
    "freshline backfill show 5f0c11aa --follow",
]


class BackfillGroup(click.Group):
    """A group in which the name of an asset stands for `create` with it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `create` before an asset or an option of it."""
        own = {"-h", "--help", "--project"}
        if not args:
            raise click.UsageError(f"name an asset, or give a command: {', '.join(self.list_commands(ctx))}", ctx)
        if args and args[0] not in self.commands and args[0].partition("=")[0] not in own:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(
    "backfill",
    cls=BackfillGroup,
    epilog=examples_text(EXAMPLES),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def backfill() -> None:
    """Compute partitions again: those that are missing, failed or stale, or all of a range.

    `freshline backfill ASSET` is short for `freshline backfill create ASSET`.

    A backfill is a demand, not a queue of runs. It survives crashes and deploys, counts runs that others start, and
    lets today's data go first.
    """


@command("create", examples=EXAMPLES[:3])
@click.argument("asset")
@click.option("--from", "first", metavar="KEY", help="The first partition; for partitions by time.")
@click.option("--to", "last", metavar="KEY", help="The last partition, included; for partitions by time.")
@click.option("--keys", metavar="KEY,…", help="Single partitions, instead of a range.")
@click.option(
    "--only", type=click.Choice([str(one) for one in Only]), default=str(Only.ALL), show_default=True,
    help="Which of them.",
)  # fmt: skip
@click.option("--upstream", is_flag=True, help="Also the partitions that these are computed from.")
@click.option("--downstream", is_flag=True, help="Also the partitions that are computed from these.")
@click.option(
    "--batch", type=click.IntRange(1), default=1, show_default=True, help="How many partitions one run computes."
)
@click.option(
    "--concurrency", type=click.IntRange(1), default=DEFAULT_CONCURRENCY, show_default=True,
    help="How many of its runs are queued or running at a time.",
)  # fmt: skip
@click.option(
    "--order",
    type=click.Choice(["newest", "oldest"]),
    default="newest",
    show_default=True,
    help="Which partitions come first.",
)
@click.option("--not-before", metavar="T", help="Start then: 22:00, an ISO time, or a duration from now (2h).")
@click.option("--during-quiet-hours", is_flag=True, help="Run in the quiet hours of its workflows too.")
@click.option(
    "--priority", type=click.IntRange(0), default=DEFAULT_PRIORITY, show_default=True, help="Among backfills."
)
@click.option("--partial", is_flag=True, help="Leave input partitions out that are missing or were removed.")
@click.option("--key", metavar="K", help="Asking twice with the same key makes one backfill.")
@click.option("--dry-run", is_flag=True, help="Show what it would compute and cost; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@pass_app
def create(
    app: App,
    /,
    *,
    asset: str,
    first: str | None,
    last: str | None,
    keys: str | None,
    not_before: str | None,
    order: str,
    key: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what a backfill of ASSET would compute and cost, and start it. Without a terminal, --yes is needed.

    The cost is measured: the durations, rows and bytes of earlier runs.
    """
    with app.backend() as store:
        request = BackfillRequest(
            asset_id=asset,
            first=first,
            last=last,
            keys=() if keys is None else tuple(one.strip() for one in keys.split(",")),
            upstream=given["upstream"],
            downstream=given["downstream"],
            policy=BackfillPolicy(
                only=Only(given["only"]),
                batch=given["batch"],
                concurrency=given["concurrency"],
                newest_first=order == "newest",
                not_before=_start(not_before, store) if not_before else None,
                during_quiet_hours=given["during_quiet_hours"],
                priority=given["priority"],
                partial=given["partial"],
            ),
        )
        preview = store.backfills.preview(request)
        if not as_json:
            output.show(*preview_parts(preview, request.policy))
        if dry_run:
            if as_json:
                output.print_json(preview)
            return
        if not _agreed(yes=yes):
            output.message("nothing was started")
            raise SystemExit(1)
        made = store.backfills.find(store.backfills.create(request, key=key))
    if as_json:
        output.print_json(made)
    else:
        number = short(made["id"])
        output.message(f"backfill {number} is {made['status']}; `freshline backfill show {number} -f` follows it")


@command("list", examples=["freshline backfill list", "freshline backfill list --all --asset sales.daily --json"])
@click.option("--asset", metavar="ASSET", help="Only of this asset.")
@click.option("--all", "ended", is_flag=True, help="Those that ended too.")
@limit_option(20)
@click.option("--after", metavar="ID", help="Continue a listing after this one.")
@json_option
@pass_app
def list_(app: App, *, asset: str | None, ended: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List backfills with their progress, newest first."""
    with app.backend() as store:
        statuses = () if ended else sorted(OPEN)
        cursor = _full_id(store, after) if after else None
        found = store.backfills.list(statuses=statuses, asset_id=asset, limit=limit, after=cursor)
    if as_json:
        output.print_json(found)
    elif found:
        output.show(Table.of(BACKFILLS, map(cells, found)))
        if hint := proposal_hint(found):
            output.message(hint)
    else:
        output.message("no backfill is open" + ("" if ended else "; --all lists those that ended"))


@command("show", examples=["freshline backfill show 5f0c11aa", "freshline backfill show 5f0c11aa --follow"])
@click.argument("backfill_id", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Keep showing it until it ends.")
@json_option
@pass_app
def show(app: App, *, backfill_id: str, follow: bool, as_json: bool) -> None:
    """Show the progress of a backfill, when it will end, its states key by key, and what failed."""
    with app.backend() as store:
        number = _full_id(store, backfill_id)
        found = store.backfills.find(number)
        if follow:
            found = _follow(store, number, found, as_json=as_json)
            if as_json:
                return
    if as_json:
        output.print_json(found)
    else:
        output.show(*detail_parts(found))


def _action(name: str, what: str, text: str) -> click.Command:
    """Return a command that changes a backfill and says how it is then."""

    def act(app: App, *, backfill_id: str, as_json: bool) -> None:
        with app.backend() as store:
            number = _full_id(store, backfill_id)
            getattr(store.backfills, name)(number)
            _answer(store.backfills.find(number), as_json=as_json)

    act.__doc__ = text
    made = pass_app(act)
    for option in (json_option, click.argument("backfill_id", metavar="ID")):
        made = option(made)
    found: click.Command = command(name, examples=[f"freshline backfill {name} 5f0c11aa{what}"])(made)
    return found


def _answer_command(name: str, text: str) -> click.Command:
    """Return a command that approves or denies a proposal. What is answered is what was shown."""

    def act(app: App, *, backfill_id: str, revision: int | None, yes: bool, as_json: bool) -> None:
        with app.backend() as store:
            number = _full_id(store, backfill_id)
            if revision is None:
                found = store.backfills.find(number)
                revision = found["revision"]
                if found["status"] == BackfillStatus.PROPOSED and not yes:
                    _ask_about(name, found, as_json=as_json)
            getattr(store.backfills, name)(number, revision=revision)
            _answer(store.backfills.find(number), as_json=as_json)

    act.__doc__ = text
    made = pass_app(act)
    revision = click.option(
        "--revision",
        type=click.IntRange(1),
        metavar="N",
        help="The revision that was shown. If it grew since, nothing is done.",
    )
    agreed = click.option("--yes", "-y", is_flag=True, help="Do not ask; answer what it lists now.")
    for option in (json_option, agreed, revision, click.argument("backfill_id", metavar="ID")):
        made = option(made)
    examples = [f"freshline backfill {name} 5f0c11aa", f"freshline backfill {name} 5f0c11aa --revision 2"]
    found: click.Command = command(name, examples=examples)(made)
    return found


@command("cancel", examples=["freshline backfill cancel 5f0c11aa", "freshline backfill cancel 5f0c11aa --kill"])
@click.argument("backfill_id", metavar="ID")
@click.option("--kill", is_flag=True, help="Stop its running runs too.")
@json_option
@pass_app
def cancel(app: App, *, backfill_id: str, kill: bool, as_json: bool) -> None:
    """End a backfill: its queued runs end, its running ones finish unless --kill. What is done stays done."""
    with app.backend() as store:
        number = _full_id(store, backfill_id)
        store.backfills.cancel(number, kill=kill)
        _answer(store.backfills.find(number), as_json=as_json)


def _answer(found: BackfillDetail, *, as_json: bool) -> None:
    if as_json:
        output.print_json(found)
    else:
        output.message(f"backfill {short(found['id'])} of {found['assetId']} is {found['status']}")


def _start(text: str, store: Backend) -> datetime:
    """Return when a backfill may start. A time of day is the next one on the clock of this machine."""
    now = store.reader.now()
    try:
        clock = datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007 - the zone is that of this machine
    except ValueError:
        pass
    else:
        found = datetime.combine(now.astimezone().date(), clock).astimezone()
        return found if found > now else found + timedelta(days=1)
    try:
        return parse_when(text, now)
    except UsageError:
        raise UsageError(
            f"--not-before {text!r} is not a time; allowed are a time of day (22:00), "
            "ISO times (2026-01-31T18:00) and durations from now (30m, 2h, 1d)"
        ) from None


def _ask_about(name: str, found: BackfillDetail, *, as_json: bool) -> None:
    """Show a proposal and ask. Nobody answers what was not shown, so without a terminal a revision is needed."""
    number = short(found["id"])
    if as_json or not _has_terminal():
        why = "--json does not ask" if as_json else "no terminal can be asked"
        raise UsageError(
            f"{why}; `freshline backfill show {number}` shows"
            f" the proposal, `--revision {found['revision']}` answers what it lists now, --yes whatever it lists"
        )
    output.show(*detail_parts(found, answers=False))
    if not click.confirm(_QUESTIONS[name], err=True):
        output.message("nothing was changed")
        raise SystemExit(1)


_QUESTIONS = {"approve": "Run these partitions?", "deny": "Leave these partitions as they are?"}


def _agreed(*, yes: bool) -> bool:
    if yes:
        return True
    if not _has_terminal():
        raise UsageError("no terminal can be asked; --yes starts the backfill, --dry-run only shows it")
    return click.confirm("Start this backfill?", err=True)


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _full_id(store: Backend, text: str) -> str:
    """Return the id of a backfill from its id or a unique end of it."""
    if len(text) == FULL_ID:
        return text
    known = [one["id"] for one in store.backfills.list(limit=MOST_SEARCHED)]
    found = [one for one in known if one.replace("-", "").endswith(text.replace("-", "").lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several backfills end with {text!r}: {', '.join(found)}; give more of the id")
    raise NotFoundError(f"backfill {text!r} does not exist", hint="`freshline backfill list --all` lists them")


def _follow(store: Backend, number: str, found: BackfillDetail, *, as_json: bool) -> BackfillDetail:
    """Show a backfill until it ends, and return it. A terminal gets a live view, a pipe a line per change."""
    if not as_json and sys.stdout.isatty():
        return _draw(store, number, found)
    shown = None
    while True:
        if found["progress"] != shown:
            shown = found["progress"]
            if as_json:
                output.print_json(found, line=True)
            else:
                output.show(Text.join("  ", [cell if isinstance(cell, Text) else Text(cell) for cell in cells(found)]))
        if BackfillStatus(found["status"]) not in OPEN:
            return found
        sys.stdout.flush()
        sleep(POLL_S)
        found = store.backfills.find(number)


def _draw(store: Backend, number: str, found: BackfillDetail) -> BackfillDetail:
    from freshline.cli.live import live  # noqa: PLC0415 - rich is imported only to draw

    with live(lambda: detail_parts(found)) as refresh:
        while BackfillStatus(found["status"]) in OPEN:
            refresh()
            sleep(POLL_S)
            found = store.backfills.find(number)
    return found


ACTIONS = (
    ("pause", "", "Pause a backfill: its queued runs end, its running ones go on."),
    ("resume", "", "Go on with a paused backfill."),
    ("retry", "", "Try the partitions again that failed or were refused, without their cooldowns."),
)
ANSWERS = (
    (
        "approve",
        "Show a proposal and let it run. It becomes an active backfill. Without a terminal, --revision is needed.",
    ),
    (
        "deny",
        (
            "Show a proposal and leave its partitions as they are. The versions that it lists cause no run any more. "
            "Without a terminal, --revision is needed."
        ),
    ),
)
ANSWER_COMMANDS = [_answer_command(*answer) for answer in ANSWERS]
for one in (create, list_, show, *ANSWER_COMMANDS, cancel, *(_action(*action) for action in ACTIONS)):
    backfill.add_command(one)
