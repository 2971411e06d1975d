"""`freshline webhook`: subscriptions to events over HTTP."""

from __future__ import annotations

import os

import click

from freshline.cli.app import App, json_option, limit_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.format import moment
from freshline.cli.render.table import Column, Columns, Table
from freshline.errors import UsageError
from freshline.model.documents.installation import Webhook
from freshline.plural import counted
from freshline.unmatched import unmatched_filters

KINDS = ("cloudevents", "openlineage")
WEBHOOKS: Columns = [
    "NAME",
    "STATE",
    Column("DELIVERED", drop=1),
    "WAITING",
    "DEAD",
    Column("LAST DELIVERY", drop=2),
    "URL",
    Column("TROUBLE", wraps=20),
]
DELIVERIES: Columns = ["EVENT", "STATE", Column("ATTEMPTS", drop=1), "TRIED", Column("TROUBLE", wraps=20)]


@click.group(
    "webhook",
    epilog=examples_text(
        ["freshline webhook add https://hooks.example/freshline --type 'asset.*'", "freshline webhook list"]
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def webhook() -> None:
    """Send events to other systems over HTTP: signed, at least once, retried from the database."""


@command(
    "add",
    examples=[
        "freshline webhook add https://hooks.example/freshline",
        "freshline webhook add https://hooks.example/x --name failures \\",
        "    --type 'workflow.run.failed' --asset 'sales.*'",
        "freshline webhook add https://hooks.example/x --secret-env SECRET --after 0",
        "freshline webhook add https://lineage.example/api/v1/lineage \\",
        "    --kind openlineage --secret-env LINEAGE_KEY",
    ],
)
@click.argument("url")
@click.option("--name", help="Its name. Default: the host of the URL.")
@click.option(
    "--type", "types", multiple=True, metavar="PATTERN", help="Events of this type; * is anything. Repeatable."
)
@click.option("--asset", "assets", multiple=True, metavar="PATTERN", help="Events about this asset, or what makes it.")
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True, help="What is sent.")
@click.option("--secret-env", metavar="VARIABLE", help="Take the secret, or the API key, from this variable.")
@click.option("--after", metavar="POSITION", type=click.IntRange(0, 2**63 - 1), help="Begin after this event; 0: all.")
@json_option
@pass_app
def add(
    app: App,
    *,
    url: str,
    name: str | None,
    types: tuple[str, ...],
    assets: tuple[str, ...],
    kind: str,
    secret_env: str | None,
    after: int | None,
    as_json: bool,
) -> None:
    """Send events to a URL, from now on. A new secret is printed once.

    Deliveries are CloudEvents in JSON, signed as Standard Webhooks defines; a running materializer sends them.
    """
    from freshline.webhooks.subscription import subscription  # noqa: PLC0415 - imported on demand

    allowed = app.settings.webhook_allow_private
    given = _from_environment(secret_env) if secret_env else None
    made, secret = subscription(url, allowed=allowed, name=name, kind=kind, types=types, assets=assets, secret=given)
    with app.store() as store:
        store.webhooks.add(made, after=after)
        (shown,) = store.reader.webhooks(made.name)
        output.warn(unmatched_filters(made.types, made.assets, store.reader.names()))
    if as_json:
        output.print_json({**shown, "secret": secret})
        return
    if secret:
        click.echo(secret)
        output.message("keep the secret, it is not shown again: receivers verify signatures with it")
    output.message(f"'{made.name}' gets {', '.join(shown['types'])} about {', '.join(shown['assets'])}")


@command("list", examples=["freshline webhook list", "freshline webhook list --json"])
@json_option
@pass_app
def list_(app: App, *, as_json: bool) -> None:
    """List the webhooks and the state of their deliveries."""
    with app.reader() as reader:
        found = reader.webhooks()
    if as_json:
        output.print_json(found)
    elif found:
        output.show(Table.of(WEBHOOKS, [_cells(one) for one in found]))
    else:
        output.message("there are none; `freshline webhook add URL` makes one")


@command("deliveries", examples=["freshline webhook deliveries hooks.example"])
@click.argument("name")
@limit_option(100)
@json_option
@pass_app
def deliveries(app: App, *, name: str, limit: int, as_json: bool) -> None:
    """List failed deliveries of a webhook: those that will be retried, and dead letters."""
    with app.reader() as reader:
        found = reader.webhook_deliveries(name, limit)
    if as_json:
        output.print_json(found)
    elif found:
        rows = [
            [one["eventId"], one["state"], str(one["attempts"]), moment(one["triedAt"]), one["trouble"]]
            for one in found
        ]
        output.show(Table.of(DELIVERIES, rows))
    else:
        output.message("all deliveries succeeded")


@command("redeliver", examples=["freshline webhook redeliver hooks.example"])
@click.argument("name")
@click.option("--event", metavar="ID", help="Only the letter about this event.")
@json_option
@pass_app
def redeliver(app: App, *, name: str, event: str | None, as_json: bool) -> None:
    """Send dead letters again, with new attempts."""
    with app.store() as store:
        number = store.webhooks.redeliver(name, event)
    if as_json:
        output.print_json({"name": name, "redelivered": number})
    else:
        output.message(f"{counted(number, 'dead letter')} of '{name}' will be sent again")


@command("pause", examples=["freshline webhook pause hooks.example"])
@click.argument("name")
@pass_app
def pause(app: App, *, name: str) -> None:
    """Send nothing until it is resumed; events wait."""
    with app.store() as store:
        store.webhooks.pause(name)
    output.message(f"'{name}' is paused")


@command("resume", examples=["freshline webhook resume hooks.example"])
@click.argument("name")
@pass_app
def resume(app: App, *, name: str) -> None:
    """End a pause, and the wait after failures; waiting events are sent."""
    with app.store() as store:
        store.webhooks.resume(name)
    output.message(f"'{name}' is resumed")


@command("remove", examples=["freshline webhook remove hooks.example"])
@click.argument("name")
@pass_app
def remove(app: App, *, name: str) -> None:
    """Remove a webhook and its waiting events."""
    with app.store() as store:
        store.webhooks.remove(name)
    output.message(f"'{name}' is removed")


@command("test", examples=["freshline webhook test hooks.example"])
@click.argument("name")
@json_option
@pass_app
def test(app: App, *, name: str, as_json: bool) -> None:
    """Send a signed event of the type `freshline.webhook.test` from this machine, and print the answer."""
    from freshline.services.webhook_sender import try_out  # noqa: PLC0415 - imported on demand

    with app.store() as store:
        status = try_out(store, name)
    if as_json:
        output.print_json({"name": name, "status": status})
    else:
        output.message(f"'{name}' answered {status}")


for part in (add, list_, deliveries, redeliver, pause, resume, remove, test):
    webhook.add_command(part)


def _from_environment(variable: str) -> str:
    found = os.environ.get(variable)
    if not found:
        raise UsageError(f"the variable {variable} of --secret-env is not set")
    return found


def _cells(one: Webhook) -> list[str]:
    state = "paused" if one["paused"] else "failing" if one["failures"] else "active"
    last = moment(one["deliveredAt"]) if one["deliveredAt"] else ""
    numbers = (str(number) for number in (one["delivered"], one["waiting"], one["dead"]))
    return [one["name"], state, *numbers, last, one["url"], one["trouble"] or ""]
