"""The `freshline` program: a group that imports a command only when it is called."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from freshline import __version__, process_environment
from freshline.cli.app import App, project_option
from freshline.cli.command import examples_text
from freshline.cli.error_handling import debug_option, errors_reported

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# command -> (module, attribute, one line for the list of commands): `--help` imports none of them.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "init": ("project", "init", "Create a small working project."),
    "validate": ("project", "validate", "Check the definitions; all errors at once, no database."),
    "apply": ("project", "apply", "Validate, show the plan, store the definitions."),
    "project": ("projects", "project", "Rename a project."),
    "dev": ("dev", "dev", "Run everything in one command, on the embedded database."),
    "materializer": ("processes", "materializer", "Run the services that decide what has to run."),
    "worker": ("processes", "worker", "Run queued runs."),
    "api": ("api", "api", "Serve the HTTP API."),
    "workers": ("listings", "workers", "List the processes that are running."),
    "token": ("token", "token", "Create, list and revoke tokens of the HTTP API."),
    "webhook": ("webhook", "webhook", "Send events to other systems over HTTP."),
    "alert": ("alert", "alert", "Tell people what is wrong, by mail, chat or HTTP."),
    "db": ("db", "db", "Upgrade, inspect or stop the database."),
    "doctor": ("doctor", "doctor", "Check the database and the warehouse, and repair them."),
    "status": ("status", "status", "Show how fresh everything is."),
    "partitions": ("partitions", "partitions", "List the partitions of an asset with their states."),
    "why": ("why", "why", "Explain why an asset was, or was not, refreshed."),
    "why-not": ("why", "why_not", "Same as `why`."),
    "plan": ("plan", "plan", "Show what would run if an asset changed now."),
    "simulate": ("simulate", "simulate", "Simulate days of changes under a policy, in seconds."),
    "graph": ("graph", "graph", "Show lineage as a tree, DOT or JSON."),
    "runs": ("listings", "runs", "List runs, newest first, or show one in detail."),
    "events": ("listings", "events", "List events, newest first."),
    "decisions": ("listings", "decisions", "List decisions, newest first."),
    "audit": ("listings", "audit", "List who changed what."),
    "logs": ("logs", "logs", "Show what a run printed."),
    "show": ("show", "show", "Show an asset's data."),
    "table": ("table", "table", "List, roll back, vacuum or repair versions of a table."),
    "run": ("run", "run", "Run a workflow now."),
    "backfill": ("backfill", "backfill", "Compute partitions again, and see how far that is."),
    "cancel": ("run", "cancel", "Cancel a run."),
    "report": ("report", "report", "Report that a source asset changed."),
    "watch": ("watch", "watch", "Show what is looked at for sources, and what the last look saw."),
    "delivery": ("delivery", "delivery", "List or skip the deliveries of an append source."),
    "accept": ("accept", "accept", "Accept rows that older code made."),
    "forget": ("forget", "forget", "Remove an asset that nobody uses any more."),
    "expire": ("report", "expire", "Expire an asset now."),
    "pause": ("pause", "pause", "Hold a workflow's automatic runs."),
    "resume": ("pause", "resume", "End a pause."),
    "reset": ("pause", "reset", "End a workflow's cooldown, breaker and cancellation."),
    "completion": ("completion", "completion", "Print the script for completion in bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """Imports the module of a command on demand, and reports all errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return a command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"freshline.cli.commands.{module}"), attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Suggest similar commands for an unknown one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"command {args[0]!r} does not exist; {_similar(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands with this beginning, without importing any, and the options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell asks

        found = [
            CompletionItem(name, help=line) for name, (_, _, line) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and report its error in a sentence."""
        with errors_reported(ctx):
            return super().invoke(ctx)


def _similar(name: str) -> str:
    from freshline.suggest import did_you_mean  # noqa: PLC0415 - only needed for a mistake

    return did_you_mean(name, COMMANDS, most=3, cutoff=0.5) or "`freshline --help` lists them"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples_text(
        [
            "freshline init shop && cd shop    make a project",
            "freshline dev                     run everything, here",
            "freshline report shop.orders      a source changed",
            "freshline status                  what is fresh",
            "freshline why shop.daily          and why",
        ]
    ),
)
@project_option
@debug_option
@click.version_option(__version__, message="freshline %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Freshline keeps data assets fresh by itself: exactly what needs to run, once, on Spark, and it can say why."""
    ctx.ensure_object(App)


def main() -> None:
    """Run the program."""
    process_environment.receive()
    # Imported modules are never garbage; searching them took a fifth of the time of a short command.
    gc.set_threshold(50_000)
    try:
        cli.main(prog_name="freshline")
    finally:
        if "duckdb" not in sys.modules:  # it prints a warning if its objects are not collected
            gc.freeze()  # saves the collection at exit


if __name__ == "__main__":
    main()
