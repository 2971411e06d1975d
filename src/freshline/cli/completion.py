"""Completion of asset ids and slugs in a shell. It is quick, starts no server and never prints an error."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from freshline.cli.app import App

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from freshline.cli.backend.protocol import ReadOnlyBackend
    from freshline.settings import Settings

MOST = 200
CONNECT_S = 2  # the least that PostgreSQL's client accepts
# By the name of the parameter: what it takes. "name" is an asset or a workflow if its metavar says so.
ASSETS, WORKFLOWS = frozenset({"asset"}), frozenset({"workflow"})
KINDS = {
    "asset": ASSETS,
    "assets": ASSETS,
    "source": ASSETS,
    "slug": WORKFLOWS,
    "workflow": WORKFLOWS,
    "subject": ASSETS | WORKFLOWS,
}


def add_completion(command: click.Command) -> None:
    """Let the parameters of a command that take an asset or a workflow complete its name."""
    for one in command.params:
        both = one.name == "name" and "ASSET" in (one.metavar or "")
        kinds = ASSETS | WORKFLOWS if both else KINDS.get(one.name or "")
        if kinds is not None:
            one.shell_complete = partial(_complete, kinds)  # type: ignore[method-assign]  # click asks the parameter


def _complete(kinds: frozenset[str], ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell asks

    # A shell shows whatever is printed in the middle of the user's line.
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        with contextlib.redirect_stderr(io.StringIO()), _reader(ctx.ensure_object(App).settings) as reader:
            found = reader.names(incomplete, MOST) if reader else []
        return [CompletionItem(one["name"], help=one["kind"]) for one in found if one["kind"] in kinds]
    return []


@contextlib.contextmanager
def _reader(settings: Settings) -> Iterator[ReadOnlyBackend | None]:
    """Open a backend that answers at once; None if the embedded server is not running."""
    if settings.api_url is not None:
        from freshline.cli.backend import api  # noqa: PLC0415 - imported on demand

        with api.connected(settings, timeout_s=CONNECT_S) as client:
            yield client.reader
        return
    url = settings.database_url or _embedded(settings)
    if url is None:
        yield None
        return
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - imported on demand

    from freshline.store.db.database import Database  # noqa: PLC0415
    from freshline.store.read.reader import Reader  # noqa: PLC0415

    database = Database(make_conninfo(url, connect_timeout=CONNECT_S), name="freshline-completion", size=1)
    try:
        database.open()
        yield Reader(database)
    finally:
        database.close()


def _embedded(settings: Settings) -> str | None:
    """Return the address of the project's own server if it is running."""
    from freshline.embedded_postgres.server import status  # noqa: PLC0415 - imported on demand

    return status(settings.home).url if settings.home.is_dir() else None
