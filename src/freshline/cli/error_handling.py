"""Errors of commands: one sentence on stderr and an exit code; a traceback only with `--debug`."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from freshline.cli.app import App
from freshline.errors import FreshlineError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

INTERRUPTED = 130


@contextlib.contextmanager
def errors_reported(ctx: click.Context) -> Iterator[None]:
    """Print every error of the block and exit: 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        yield
    except click.UsageError as error:
        _print_usage_error(error)
        ctx.exit(error.exit_code)
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except click.Abort:  # Ctrl-C or the end of the input at a prompt
        _end_line()
        _print("Aborted: nothing was changed.")
        ctx.exit(INTERRUPTED)
    except KeyboardInterrupt:
        _end_line()
        ctx.exit(INTERRUPTED)
    except FreshlineError as error:
        _print_traceback(ctx)
        _print(f"Error: {error} [{error.code}]")
        ctx.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - every other error is reported too
        _print_traceback(ctx)
        _print(_sentence(error))
        ctx.exit(1)


def debug_option(command: Decorated) -> Decorated:
    """Add `--debug`: show the traceback of an error."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_remember_debug, help="Show the traceback of an error."
    )(command)


def _remember_debug(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(App).debug = True


def _print_usage_error(error: click.UsageError) -> None:
    """Print what click prints, but wrapped at spaces."""
    if error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        if help_option := error.ctx.help_option_names[-1:]:
            click.echo(f"Try '{error.ctx.command_path} {help_option[0]}' for help.\n", err=True)
    missing = isinstance(error, click.exceptions.NoArgsIsHelpError)  # its message is the whole help
    text = _command_missing(error.ctx) if missing else error.format_message()
    _print(f"Error: {text.replace('a valid integer range', 'a whole number')}")


def _command_missing(ctx: click.Context | None) -> str:
    group = ctx.command if ctx else None
    names = ", ".join(group.list_commands(ctx)) if ctx and isinstance(group, click.Group) else ""
    return f"a command is missing{f'; known are {names}' if names else ''}"


def _end_line() -> None:
    """Begin a new line: the terminal shows `^C` in the one where the cursor is."""
    if sys.stderr.isatty():
        click.echo(err=True)


def _print_traceback(ctx: click.Context) -> None:
    if ctx.ensure_object(App).debug:
        click.echo(_hidden(traceback.format_exc()), err=True)


def _print(sentence: str) -> None:
    from freshline.cli.render.output import message  # noqa: PLC0415 - not needed unless something went wrong

    message(_hidden(sentence))


def _hidden(text: str) -> str:
    """Return `text` without Freshline's own credentials, which errors of drivers and servers may quote."""
    from freshline.credentials import own_credentials  # noqa: PLC0415 - not needed unless something went wrong
    from freshline.masking import Secrets  # noqa: PLC0415

    return Secrets(own_credentials(os.environ)).hide(text)


def _sentence(error: Exception) -> str:
    """Describe an error of the database, or one that is a bug in freshline."""
    kind = type(error).__module__.partition(".")[0]
    line = (str(error).strip().splitlines() or [""])[0]
    if kind == "psycopg":
        return f"Error: the database refused: {line} [database]"
    return f"Error: unexpected {type(error).__name__}: {line}; this is a bug in freshline; --debug shows the traceback"
