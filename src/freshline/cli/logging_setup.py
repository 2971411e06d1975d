"""The configuration of structlog: to stderr, for people or as JSON, so that stdout is the answer alone."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection

import structlog

from freshline.credentials import own_credentials
from freshline.masking import Secrets
from freshline.settings import Settings

# Tracebacks without the values of variables: among them may be passwords.
TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
SPECIAL = frozenset({"stack", "exception", "exc_info", "logger", "logger_name"})
QUOTED = frozenset(" \t=\r\n\"'")


def configure(settings: Settings, *, hidden: Collection[str] = ()) -> None:
    """Log from `settings.log_level` on, in `settings.log_format`, without the events that are `hidden`."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    as_json = settings.log_format == "json"
    renderer = structlog.processors.JSONRenderer() if as_json else _console(colors=sys.stderr.isatty())
    secrets = Secrets(own_credentials(os.environ, settings))
    structlog.configure(
        processors=[
            *([Hidden(hidden)] if hidden else []),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.ExceptionRenderer(TRACEBACKS)] if as_json else []),
            Masked(renderer, secrets),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Logs of other libraries, through the standard library, go to the same place.
    logging.basicConfig(level=max(level, logging.WARNING), stream=sys.stderr, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(MaskedFormatter(secrets))


def _console(*, colors: bool) -> structlog.typing.Processor:
    console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return console if colors else Plain(console)


class Hidden:
    """Drops events that the command shows in another form."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def __call__(
        self, _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.ProcessorReturnValue:
        """Return the event, unless it is hidden."""
        if event.get("event") in self._names:
            raise structlog.DropEvent
        return event


class Masked:
    """Hides Freshline's own credentials in rendered lines: errors of drivers and servers may quote them."""

    def __init__(self, renderer: structlog.typing.Processor, secrets: Secrets) -> None:
        self._renderer = renderer
        self._secrets = secrets

    def __call__(
        self, logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.ProcessorReturnValue:
        """Return the line without credentials."""
        return self._secrets.hide(str(self._renderer(logger, name, event)))


class MaskedFormatter(logging.Formatter):
    """Hides the same in lines of other libraries."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__(logging.BASIC_FORMAT)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without credentials."""
        return self._secrets.hide(super().format(record))


class Plain:
    """Renders lines without colours in a quarter of the time of structlog: there is one for every decision."""

    def __init__(self, console: structlog.typing.Processor) -> None:
        self._console = console

    def __call__(
        self, logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.ProcessorReturnValue:
        """Return one line; an event with a traceback is rendered by structlog."""
        if not SPECIAL.isdisjoint(event):
            return self._console(logger, name, event)
        begin = f"{event.pop('timestamp')} [{event.pop('level'):<9}] {event.pop('event')!s:<30}"
        return " ".join([begin, *(f"{key}={_value(event[key])}" for key in sorted(event))]).rstrip(" ")


def _value(value: object) -> str:
    return str(value) if isinstance(value, str) and QUOTED.isdisjoint(value) else repr(value)
