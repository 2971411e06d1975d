"""`freshline api`: the HTTP API as a separate process."""

from __future__ import annotations

from dataclasses import replace

import click

from freshline import process_environment
from freshline.cli.app import App, pass_app
from freshline.cli.command import command
from freshline.cli.commands.processes import log_option, port_option
from freshline.cli.render import output
from freshline.cli.signals import stop_signals, wait_for


@command(
    "api",
    examples=[
        "freshline api",
        "freshline api --port 9000",
        "freshline token create ci && freshline api --host 0.0.0.0",
    ],
)
@click.option("--host", metavar="ADDRESS", help="Where to listen. Default: FRESHLINE_API_HOST, else 127.0.0.1.")
@port_option
@log_option
@pass_app
def api(app: App, *, host: str | None, port: int | None, log_format: str | None) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C. Any number may run.

    On a loopback address it needs no token. On any other it refuses to start before there is one, and every request
    needs one: `freshline token create`.
    """
    process_environment.leave()
    from freshline.api.server import Server  # noqa: PLC0415 - no other command pays for it

    settings = app.settings
    settings = replace(settings, log_format=log_format or settings.log_format)
    with stop_signals() as asked, app.store(settings) as store:
        where = settings.api_port if port is None else port
        server = Server(store, host=host or settings.api_host, port=where, auth=settings.api_auth)
        server.start()
        output.message(f"the API is at {server.url}/api/v1; open {server.url} in a browser; Ctrl-C stops it")
        try:
            wait_for(asked, lambda: server.heartbeat.fatal)
        finally:
            server.stop()
