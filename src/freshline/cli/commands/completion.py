"""`freshline completion`: the script that completes commands and names in a shell."""

from __future__ import annotations

import click

from freshline.cli.command import command

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_FRESHLINE_COMPLETE"


@command(
    "completion",
    examples=[
        'eval "$(freshline completion bash)"        in ~/.bashrc',
        'eval "$(freshline completion zsh)"         in ~/.zshrc, after compinit',
        "freshline completion fish | source         in ~/.config/fish/config.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the script that lets a shell complete commands, options, asset ids and slugs.

    Names come from the database or the API of the settings, if it answers within two seconds. The embedded database of
    a project is asked only while it is running. Bash needs version 4.4.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - no other command needs it

    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - click has the three shells
    click.echo(made(ctx.find_root().command, {}, "freshline", VARIABLE).source())
