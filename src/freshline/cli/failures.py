"""How errors are told: one sentence on stderr and an exit code; a traceback only for those who ask for it."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from freshline.cli.app import App
from freshline.errors import FreshlineError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

INTERRUPTED = 130


@contextlib.contextmanager
def told(ctx: click.Context) -> Iterator[None]:
    """Turn what goes wrong inside into words and an exit code: 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    except FreshlineError as error:
        _show_traceback(ctx)
        _say(f"Error: {error} [{error.code}]")
        ctx.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - the last line of defence before a user's eyes
        _show_traceback(ctx)
        _say(_sentence(error))
        ctx.exit(1)


def debug_option(command: Decorated) -> Decorated:
    """`--debug`: show the traceback of an error too."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_remember_debug, help="Show the traceback of an error."
    )(command)


def _remember_debug(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(App).debug = True


def _show_traceback(ctx: click.Context) -> None:
    if ctx.ensure_object(App).debug:
        click.echo(traceback.format_exc(), err=True)


def _say(sentence: str) -> None:
    from freshline.cli.render.output import say  # noqa: PLC0415 - only for those for whom something went wrong

    say(sentence)


def _sentence(error: Exception) -> str:
    """Errors of the database get a sentence of their own; all others are ours to mend."""
    kind = type(error).__module__.partition(".")[0]
    line = (str(error).strip().splitlines() or [""])[0]
    if kind == "psycopg":
        return f"Error: the database refused: {line} [database]"
    return (
        f"Error: unexpected {type(error).__name__}: {line}; this is a fault of freshline; --debug shows the traceback"
    )
