"""`freshline token`: who may use the HTTP API."""

from __future__ import annotations

import click

from freshline.cli.app import App, json_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output
from freshline.cli.render.format import moment
from freshline.cli.render.table import Column, Columns, Table
from freshline.credentials import new_token
from freshline.duration import milliseconds
from freshline.errors import UsageError
from freshline.model.documents.installation import Token

SCOPES = ("read", "operate", "admin")


@click.group(
    "token",
    epilog=examples_text(["freshline token create ci --scope operate", "freshline token list"]),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def token() -> None:
    """Create, list and revoke the tokens of the HTTP API.

    Scopes: `read` reads; `operate` also reports, runs, cancels and pauses; `admin` also reads the audit and changes
    webhooks, alerts and tokens. Rows of tables are data: they need `--data`, or `admin`.
    """


@command(
    "create",
    examples=[
        "freshline token create dashboard --scope read",
        "freshline token create ci --scope operate --expires 30d",
        "freshline token create analyst --data",
    ],
)
@click.argument("name")
@click.option("--scope", type=click.Choice(SCOPES), default="read", show_default=True, help="What it may do.")
@click.option("--data", is_flag=True, help="It may also read the rows of tables.")
@click.option("--expires", metavar="D", default="90d", show_default=True, help="How long it is valid.")
@json_option
@pass_app
def create(app: App, *, name: str, scope: str, data: bool, expires: str, as_json: bool) -> None:
    """Create a token and print it once: only its digest is stored."""
    secret, digest = new_token()
    lifetime = _lifetime(expires)
    with app.store() as store:
        store.tokens.create(name, scope, digest, lifetime_ms=lifetime, data=data)
        (made,) = [one for one in store.reader.tokens() if one["name"] == name and one["revokedAt"] is None]
    if as_json:
        output.print_json({**made, "token": secret})
        return
    click.echo(secret)
    rows = " and read rows" if data else ""
    until = moment(made["expiresAt"])
    output.message(f"'{name}' may {scope}{rows} until {until}; keep the token, it is not shown again")


@command("list", examples=["freshline token list", "freshline token list --json"])
@json_option
@pass_app
def list_(app: App, *, as_json: bool) -> None:
    """List the tokens, newest first, with when they were used last."""
    with app.reader() as reader:
        found = reader.tokens()
    if as_json:
        output.print_json(found)
    elif found:
        columns: Columns = [
            *("NAME", "SCOPE", "STATE", Column("ROWS", drop=3)),
            *(Column("CREATED", drop=1), "EXPIRES", Column("LAST USED", drop=2)),
        ]
        output.show(Table.of(columns, [_cells(one) for one in found]))
    else:
        output.message("there are none; `freshline token create NAME` creates one")


@command("revoke", examples=["freshline token revoke ci"])
@click.argument("name")
@json_option
@pass_app
def revoke(app: App, *, name: str, as_json: bool) -> None:
    """Revoke a token, from the next request on."""
    with app.store() as store:
        store.tokens.revoke(name)
    if as_json:
        output.print_json({"name": name, "revoked": True})
    else:
        output.message(f"'{name}' is revoked")


for part in (create, list_, revoke):
    token.add_command(part)


def _lifetime(text: str) -> int:
    try:
        found = milliseconds(text)
    except ValueError as error:
        raise UsageError(f"--expires: {error}") from None
    if found == 0:
        raise UsageError("--expires is 0; it must be longer")
    return found


def _cells(one: Token) -> list[str]:
    state = "revoked" if one["revokedAt"] else "active" if one["active"] else "expired"
    times = (moment(time) for time in (one["createdAt"], one["expiresAt"], one["usedAt"]))
    rows = "yes" if one["data"] or one["scope"] == "admin" else "-"
    return [one["name"], one["scope"], state, rows, *times]
