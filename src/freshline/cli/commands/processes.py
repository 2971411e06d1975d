"""`freshline materializer` and `worker`: the processes of a deployment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from freshline import process_environment
from freshline.cli.app import App, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.signals import stop_signals, wait_for
from freshline.settings import Settings

log_option = click.option("--log-format", type=click.Choice(["console", "json"]), help="Default: FRESHLINE_LOG_FORMAT.")
grace_option = click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=30,
    show_default=True,
    help="How long running work may go on after a stop before it is handed back.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="The port of the API. Default: FRESHLINE_API_PORT, else 8080. 0: a free one.",
)
slots_option = click.option(
    "--slots", type=click.IntRange(1, 64), default=1, show_default=True, help="How many runs at once."
)


@command(
    "materializer",
    examples=["freshline materializer", "freshline materializer --log-format json"],
)
@log_option
@pass_app
def materializer(app: App, *, log_format: str | None) -> None:
    """Run the services that notice changes, decide what has to run, fire timers and rescue lost runs.

    Runs until SIGTERM or Ctrl-C. Any number may run; they share the work and never do it twice.
    """
    process_environment.leave()
    from freshline.cli.commands.why import explain  # noqa: PLC0415 - imported on demand
    from freshline.services.materializer import Materializer  # noqa: PLC0415

    settings = _with_format(app.settings, log_format)
    with stop_signals() as asked, app.store(settings) as store, metrics_served(settings):
        service = Materializer(store, settings, explain)
        service.start()
        output.message("materializer is running; Ctrl-C stops it")
        try:
            wait_for(asked, lambda: service.heartbeat.fatal)
        finally:
            service.stop()


@command(
    "worker",
    examples=["freshline worker", "freshline worker --slots 2 --grace 120", "freshline worker --log-format json"],
)
@slots_option
@grace_option
@log_option
@pass_app
def worker(app: App, *, slots: int, grace: float, log_format: str | None) -> None:
    """Run queued runs of this project on Spark, most urgent first.

    Runs until SIGTERM or Ctrl-C; then it finishes what it can within the grace period and hands the rest back.
    """
    process_environment.leave()
    from freshline.worker.worker import Worker  # noqa: PLC0415 - imported on demand

    settings = _with_format(app.settings, log_format)
    with stop_signals() as asked, app.store(settings) as store, metrics_served(settings):
        warn_about_root()
        service = Worker(store, settings, slots=slots)
        service.start()
        output.message(f"worker is running with {slots} slot{'s' if slots > 1 else ''}; Ctrl-C stops it")
        try:
            wait_for(asked, lambda: service.heartbeat.fatal)
        finally:
            service.stop(grace)


def warn_about_root() -> None:
    """Warn once if jobs would run as root: a sentence for a person, else a line of the log."""
    if os.geteuid() != 0:
        return
    effect = "jobs can read and change everything on this machine, also the credentials of Freshline"
    advice = "use an account of its own (docs/security.md)"
    if sys.stderr.isatty():
        output.message(f"warning: running as root, so {effect}; {advice}")
        return
    import structlog  # noqa: PLC0415 - help must not load it

    structlog.get_logger("freshline.cli").warning("running_as_root", effect=effect, advice=advice)


@contextmanager
def metrics_served(settings: Settings) -> Iterator[None]:
    """Serve the metrics of this process to Prometheus, if a port is set."""
    if settings.metrics_port == 0:
        yield
        return
    from freshline.api.metrics import serve  # noqa: PLC0415 - imported on demand

    stop = serve(settings.metrics_host, settings.metrics_port)
    try:
        yield
    finally:
        stop()


def _with_format(settings: Settings, log_format: str | None) -> Settings:
    return settings if log_format is None else replace(settings, log_format=log_format)
