"""The context of every command: the project, the settings, an open store, and the options that all commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from freshline.errors import UsageError
from freshline.lazy_logger import configure_on_first_use
from freshline.settings import Settings, load

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import Backend, ReadOnlyBackend
    from freshline.store.operations.audit import Actor
    from freshline.store.read.reader import Reader
    from freshline.store.store import Store

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

MAX_LIMIT = 100_000


@dataclass
class App:
    """The state of one invocation. Nothing is opened until a command needs it."""

    project: Path | None = None
    debug: bool = False

    @property
    def settings(self) -> Settings:
        """Return the settings from the environment and `--project`."""
        settings = load(project=self.project)
        if not settings.project.is_dir():
            raise UsageError(f"the project directory {settings.project} does not exist")
        return settings

    def at(self, directory: Path | None) -> Settings:
        """Return the settings of the project in `directory`, or of the chosen one."""
        return self.settings if directory is None else replace(self, project=directory).settings

    @contextmanager
    def read_backend(self) -> Iterator[ReadOnlyBackend]:
        """Open the API that FRESHLINE_API_URL names, else the database, for reading."""
        settings = self.settings
        if settings.api_url is None:
            with self.reader(settings) as reader:
                yield reader
        else:
            with self._remote(settings) as store:
                yield store.reader

    @contextmanager
    def backend(self) -> Iterator[Backend]:
        """Open the API that FRESHLINE_API_URL names, else the database, for reading and operating."""
        settings = self.settings
        with self.store(settings) if settings.api_url is None else self._remote(settings) as store:
            yield store

    @contextmanager
    def _remote(self, settings: Settings) -> Iterator[Backend]:
        from freshline.cli import logging_setup  # noqa: PLC0415 - `--help` must not pay for it
        from freshline.cli.backend import api  # noqa: PLC0415 - `--help` must not pay for it

        logging_setup.configure(settings)
        with api.connected(settings) as store:
            yield store

    @contextmanager
    def reader(self, settings: Settings | None = None) -> Iterator[Reader]:
        """Open the database for reading: quicker than opening the store."""
        from freshline.store.db.opening import open_reader  # noqa: PLC0415 - `--help` must not pay for the driver

        chosen = self._checked(settings)
        configure_on_first_use(lambda: _configure_logs(chosen))
        with open_reader(chosen) as reader:
            yield reader

    @contextmanager
    def store(self, settings: Settings | None = None) -> Iterator[Store]:
        """Open the store."""
        from freshline.store.db.opening import open_store  # noqa: PLC0415 - `--help` must not pay for the driver
        from freshline.store.operations.audit import acting  # noqa: PLC0415 - the same

        chosen = self._checked(settings)
        _configure_logs(chosen)
        with open_store(chosen) as store, acting(_actor(chosen)):
            yield store

    def _checked(self, settings: Settings | None) -> Settings:
        chosen = settings or self.settings
        require_database(chosen)
        _require_project(chosen)
        require_readable(chosen)
        return chosen


def _configure_logs(settings: Settings) -> None:
    from freshline.cli import logging_setup  # noqa: PLC0415 - who only looks need not pay for it

    logging_setup.configure(settings)


def _actor(settings: Settings) -> Actor:
    """Return the actor for the audit: FRESHLINE_ACTOR, else the user of this machine."""
    import socket  # noqa: PLC0415 - `--help` must not pay for it, nor for the driver

    from freshline.store.operations.audit import Actor  # noqa: PLC0415

    return Actor(f"cli:{settings.actor or f'{_user()}@{socket.gethostname()}'}")


def _user() -> str:
    import getpass  # noqa: PLC0415 - few commands name anybody

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def require_database(settings: Settings) -> None:
    """Reject a command that needs the database if only an API is configured: it must not start an embedded one."""
    if settings.api_url is not None and settings.database_url is None:
        raise UsageError(
            "this command needs the database, and FRESHLINE_API_URL names an API alone",
            hint="set FRESHLINE_DATABASE_URL too, or unset FRESHLINE_API_URL to use the project's own database",
        )


def require_readable(settings: Settings) -> None:
    """Reject a database URL that the driver cannot parse: the driver's error would show the password in it."""
    import psycopg  # noqa: PLC0415 - `--help` must not pay for the driver
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        conninfo_to_dict(settings.database_url or "")
    except psycopg.Error:
        allowed = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        raise UsageError(f"FRESHLINE_DATABASE_URL is not the address of a database; allowed is {allowed}") from None


def _require_project(settings: Settings) -> None:
    """Reject a directory that is not a project: it must not get an embedded database by accident."""
    if settings.database_url is None and not (settings.project / "freshline.toml").is_file():
        raise UsageError(
            f"{settings.project} is not a project: it has no freshline.toml",
            hint="go to one, name it with --project, make one with `freshline init`, or set FRESHLINE_DATABASE_URL",
        )


def _remember_project(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.ensure_object(App).project = value


def project_option(command: Decorated) -> Decorated:
    """Add `--project DIR`, before or after the command's name."""
    return click.option(
        "--project",
        metavar="DIR",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_remember_project,
        help="The project directory. Default: FRESHLINE_PROJECT, else the current directory.",
    )(command)


def json_option(command: Decorated) -> Decorated:
    """Add `--json`: one JSON document on stdout and nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def limit_option(default: int) -> Callable[[Decorated], Decorated]:
    """Add `--limit`: how many entries, newest first."""
    return click.option(
        "--limit",
        type=click.IntRange(1, MAX_LIMIT),
        default=default,
        show_default=True,
        help=f"The most entries to list, up to {MAX_LIMIT:,}.",
    )


pass_app = click.make_pass_decorator(App, ensure=True)
