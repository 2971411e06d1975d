"""`freshline alert`: rules that report what is wrong to people."""

from __future__ import annotations

from typing import Any

import click

from freshline.cli.app import App, json_option, limit_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.format import duration, moment
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.errors import UsageError
from freshline.model.alerts import AlertKind
from freshline.model.documents.alert import Alert, AlertIncident, AlertMessage, AlertTest
from freshline.unmatched import unmatched_filters

KINDS = [kind.value for kind in AlertKind]
ALERTS: Columns = [
    "NAME",
    "STATE",
    "OPEN",
    Column("ON", drop=1, wraps=12),
    Column("ASSETS", wraps=12),
    Column("TO", wraps=12),
    Column("SENT", drop=3),
    Column("PROJECT", drop=2),
    Column("TROUBLE", wraps=20),
]
INCIDENTS: Columns = ["SINCE", "STATE", "ROOT", Column("KINDS", drop=1), "AFFECTED", Column("ERROR", drop=2, wraps=20)]
MESSAGES: Columns = ["TIME", "STATE", "TO", Column("TITLE", wraps=20), Column("TROUBLE", wraps=20)]


@click.group(
    "alert",
    epilog=examples_text(
        [
            "freshline alert add sales --on failing --asset 'sales.*' --to-env SLACK_URL",
            "freshline alert list",
        ]
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def alert() -> None:
    """Tell people what is wrong: one message per incident and one all-clear, by mail, chat or HTTP.

    Rules are also tables [alerts.NAME] in freshline.toml. They are sent by a running materializer, through Apprise.
    """


@command(
    "add",
    examples=[
        "freshline alert add sales --on failing --asset 'sales.*' --to-env SLACK_URL",
        "freshline alert add all --on failing --to-env MAIL --digest 'daily 08:00'",
    ],
)
@click.argument("name")
@click.option("--on", "kinds", multiple=True, metavar="KIND", help=f"What to report: {', '.join(KINDS)}. Repeatable.")
@click.option("--asset", "assets", multiple=True, metavar="PATTERN", help="These assets; * is anything. Repeatable.")
@click.option("--to-env", multiple=True, metavar="VARIABLE", help="The materializer's variable that holds an address.")
@click.option("--to", multiple=True, metavar="ADDRESS", help="An address of Apprise. It stays in the shell's history.")
@click.option("--after", metavar="DURATION", help="Report what is wrong for this long. Default: at once.")
@click.option("--clear-after", metavar="DURATION", help="All is clear after this long without trouble. Default: 1m.")
@click.option("--quiet", multiple=True, metavar="HH:MM-HH:MM", help="Messages wait until the end of this time.")
@click.option("--timezone", help="The time zone of --quiet and --digest. Default: UTC.")
@click.option("--digest", metavar="WHEN", help="One summary: 'daily 08:00', '4h' or a cron expression.")
@click.option("--title", help="A template of the title, as in '{root}: {kind}'.")
@click.option("--body", help="A template of the text.")
@json_option
@pass_app
def add(app: App, /, *, name: str, as_json: bool, **given: Any) -> None:
    """Add a rule that covers the assets of all projects."""
    from freshline.definitions.alerts import read_rule  # noqa: PLC0415 - imported on demand

    targets = [*given["to"], *({"env": variable} for variable in given["to_env"])]
    if not targets:
        raise UsageError("no address is given; --to-env VARIABLE names a variable of the materializer that holds one")
    fields = {
        "on": list(given["kinds"]) or None,
        "assets": list(given["assets"]) or None,
        "to": targets,
        "after": given["after"],
        "clearAfter": given["clear_after"],
        "quiet": list(given["quiet"]) or None,
        **{field: given[field] for field in ("timezone", "digest", "title", "body")},
    }
    try:
        rule = read_rule(name, {field: value for field, value in fields.items() if value is not None})
    except ValueError as error:
        raise UsageError(str(error)) from None
    with app.store() as store:
        store.alerts.add(rule)
        (shown,) = store.reader.alerts.rules(name)
        output.warn(unmatched_filters((), shown["assets"], store.reader.names()))
    if as_json:
        output.print_json(shown)
    else:
        about = f"{', '.join(shown['on'])} of {', '.join(shown['assets'])}"
        output.message(f"'{name}' reports {about} to {', '.join(shown['to'])}")
        output.message(f"`freshline alert test {name}` sends a test from this machine")


@command("list", examples=["freshline alert list", "freshline alert list --json"])
@json_option
@pass_app
def list_(app: App, *, as_json: bool) -> None:
    """List the rules, their open incidents and the state of their messages."""
    with app.reader() as reader:
        found = reader.alerts.rules()
    if as_json:
        output.print_json(found)
    elif found:
        output.show(Table.of(ALERTS, [_cells(one) for one in found]))
    else:
        output.message("there are none; `freshline alert add NAME`, or [alerts.NAME] in freshline.toml, makes one")


@command("show", examples=["freshline alert show sales", "freshline alert show sales --limit 100"])
@click.argument("name")
@limit_option(20)
@json_option
@pass_app
def show(app: App, *, name: str, limit: int, as_json: bool) -> None:
    """Show a rule with its last incidents and messages."""
    with app.reader() as reader:
        (rule,) = reader.alerts.rules(name)
        incidents = reader.alerts.incidents(name, limit)
        messages = reader.alerts.messages(name, limit)
    if as_json:
        output.print_json({**rule, "incidents": incidents, "messages": messages})
        return
    for line in _lines(rule):
        output.show(line)
    output.show("")
    if incidents:
        output.show(Table.of(INCIDENTS, [_incident(one) for one in incidents], title="incidents"))
    else:
        output.show("no incident so far")
    if messages:
        output.show("", Table.of(MESSAGES, [_message(one) for one in messages], title="messages"))


@command("pause", examples=["freshline alert pause sales"])
@click.argument("name")
@pass_app
def pause(app: App, *, name: str) -> None:
    """Send nothing until it is resumed. Incidents that end meanwhile are never reported."""
    with app.store() as store:
        store.alerts.pause(name)
    output.message(f"'{name}' is paused")


@command("resume", examples=["freshline alert resume sales"])
@click.argument("name")
@pass_app
def resume(app: App, *, name: str) -> None:
    """End a pause, and the wait after failures; what is still wrong is reported."""
    with app.store() as store:
        store.alerts.resume(name)
    output.message(f"'{name}' is resumed")


@command("remove", examples=["freshline alert remove sales"])
@click.argument("name")
@pass_app
def remove(app: App, *, name: str) -> None:
    """Remove a rule that a command added, with its incidents and waiting messages. Nothing is sent about it."""
    with app.store() as store:
        store.alerts.remove(name)
    output.message(f"'{name}' is removed")


@command("test", examples=["freshline alert test sales", "freshline alert test --to-env SLACK_URL"])
@click.argument("name", required=False)
@click.option("--to-env", multiple=True, metavar="VARIABLE", help="Send to the address in this variable. Repeatable.")
@click.option("--to", multiple=True, metavar="ADDRESS", help="Send to this address. It stays in the shell's history.")
@json_option
@pass_app
def test(app: App, *, name: str | None, to_env: tuple[str, ...], to: tuple[str, ...], as_json: bool) -> None:
    """Send a test message now, from this machine, and show the result of each address.

    Exit code 1 if one of them failed. Variables of a rule are read from the environment of this command.
    """
    from freshline.apprise_process.process import require_apprise  # noqa: PLC0415 - imported on demand
    from freshline.definitions.alerts import target  # noqa: PLC0415
    from freshline.services.alert_sender import try_out  # noqa: PLC0415

    if (name is None) == (not to and not to_env):
        raise UsageError("either a rule or an address is needed: `freshline alert test RULE` or `--to-env VARIABLE`")
    try:
        targets = [target(one) for one in (*to, *({"env": variable} for variable in to_env))]
    except ValueError as error:
        raise UsageError(str(error)) from None
    require_apprise()
    with app.store() as store:
        if name is not None:
            targets = store.alerts.targets(name)
        results = try_out(store, f"the rule '{name}'" if name else "this address", targets)
    found: list[AlertTest] = [
        {"to": shown, "sent": sent.trouble is None, "trouble": sent.trouble} for shown, sent in results
    ]
    if as_json:
        output.print_json({"name": name, "results": found})
    else:
        for one in found:
            result = ("sent", "green") if one["sent"] else (f"failed: {one['trouble']}", "bold red")
            output.show(Text(one["to"], "  ", result))
    if not all(one["sent"] for one in found):
        raise SystemExit(1)


for part in (add, list_, show, pause, resume, remove, test):
    alert.add_command(part)


def _cells(one: Alert) -> list[str]:
    state = "paused" if one["paused"] else "cannot send" if one["waiting"] and one["trouble"] else "active"
    numbers = (str(one["open"]), ", ".join(one["on"]), ", ".join(one["assets"]), ", ".join(one["to"]))
    return [one["name"], state, *numbers, str(one["sent"]), one["project"] or "", one["trouble"] or ""]


def _lines(one: Alert) -> list[str | Text]:
    origin = f"from {one['project']}/freshline.toml" if one["project"] else "added by a command"
    found: list[str | Text] = [
        Text((one["name"], "bold"), f", {origin}{', paused' if one['paused'] else ''}"),
        f"reports {', '.join(one['on'])} of {', '.join(one['assets'])} to {', '.join(one['to'])}",
    ]
    delays = [f"{duration(one['afterMs'] / 1000)} after it began"] if one["afterMs"] else []
    delays.append(f"the all-clear follows when all was fine for {duration(one['clearAfterMs'] / 1000)}")
    if one["digest"]:
        digest = one["digest"]
        times = digest["cron"] and f"at '{digest['cron']}' {digest['timezone']}"
        delays.append(f"in a digest {times or 'every ' + duration(digest['cadence_ms'] / 1000)}")
    delays += [f"quiet {quiet['start']}-{quiet['end']} {quiet['timezone']}" for quiet in one["quiet"]]
    found.append("; ".join(delays))
    if one["trouble"]:
        found.append(Text("the last trouble: ", (one["trouble"], "red")))
    return found


def _incident(one: AlertIncident) -> list[str | Text]:
    state = one["closing"] or ("recovering" if one["recoveredAt"] else "open")
    return [
        moment(one["openedAt"]),
        output.coloured(state),
        one["root"],
        ", ".join(one["kinds"]),
        str(one["affected"]),
        one["error"] or "",
    ]


def _message(one: AlertMessage) -> list[str]:
    when = one["sentAt"] or one["createdAt"]
    state = one["state"] if one["state"] != "waiting" or not one["attempts"] else f"tried {one['attempts']}x"
    return [moment(when), state, one["to"] or "", one["title"] or one["kind"], one["trouble"] or ""]
