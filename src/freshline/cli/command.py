"""The decorator of commands: adds examples to the help text, and `--project` and `--debug` after the name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from freshline.cli.app import project_option
from freshline.cli.completion import add_completion
from freshline.cli.error_handling import debug_option


def command(name: str, *, examples: Sequence[str], **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function. Its docstring is the help text."""

    def decorate(body: Callable[..., Any]) -> click.Command:
        shared = {"epilog": examples_text(examples), "context_settings": {"help_option_names": ["-h", "--help"]}}
        make: Callable[..., click.Command] = click.command(name, cls=click.Command, **shared, **attributes)
        made = make(project_option(debug_option(body)))
        add_completion(made)
        return made

    return decorate


def examples_text(examples: Sequence[str]) -> str:
    """Return the examples as a block that click does not wrap."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
