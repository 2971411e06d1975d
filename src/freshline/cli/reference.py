"""The generator of `docs/cli.md`: `python -m freshline.cli.reference > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from freshline.cli.main import cli

SHAPE: dict[str, Any] = {"terminal_width": 100, "max_content_width": 100, "help_option_names": ["-h", "--help"]}
INTRODUCTION = """# The command line

Written by `python -m freshline.cli.reference` from the help texts; a test keeps it current.

Every command takes `--project DIR` (before or after its name; else `FRESHLINE_PROJECT`, else the current directory) and
`--debug`. Commands that list or answer take `--json`: one JSON document on stdout and nothing else there; sentences and
logs go to stderr. Listings are newest first, with `--limit` (up to 100,000) and `--after` (the `id` that the last page
ended with). Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

With `FRESHLINE_API_URL` operating commands work [through the API](api.md#the-command-line) and need no database.

A run is named by its id or by the end of it, at least six hex digits; tables show the last eight.
"""


def reference() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    root = click.Context(cli, info_name="freshline", **SHAPE)
    yield _section(root, "freshline")
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None  # noqa: S101 - the list names only commands that exist
        yield from _command(root, name, command)


def _command(parent: click.Context, name: str, command: click.Command) -> Iterator[str]:
    ctx = click.Context(command, info_name=name, parent=parent, **SHAPE)
    yield _section(ctx, ctx.command_path)
    if isinstance(command, click.Group):
        for part in command.list_commands(ctx):
            yield from _command(ctx, part, command.commands[part])


def _section(ctx: click.Context, title: str) -> str:
    return f"## {title}\n\n```text\n{ctx.get_help()}\n```\n"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
