"""How a command is made: with examples in its help, and with `--project` and `--debug` after its name too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from freshline.cli.app import project_option
from freshline.cli.error_handling import debug_option


def command(name: str, *, examples: Sequence[str], **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function whose docstring is the help text."""

    def decorate(body: Callable[..., Any]) -> click.Command:
        shared = {"epilog": examples_text(examples), "context_settings": {"help_option_names": ["-h", "--help"]}}
        make: Callable[..., click.Command] = click.command(name, cls=click.Command, **shared, **attributes)
        return make(project_option(debug_option(body)))

    return decorate


def examples_text(examples: Sequence[str]) -> str:
    """The examples as click's verbatim block."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
