"""structlog, configured once: to stderr, for people or as JSON, so that stdout belongs to the answer."""

from __future__ import annotations

import logging
import sys

import structlog

from freshline.settings import Settings

# Tracebacks without the values of variables: among them may be passwords.
TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def configure(settings: Settings) -> None:
    """Log from `settings.log_level` on, in `settings.log_format`."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    as_json = settings.log_format == "json"
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.ExceptionRenderer(TRACEBACKS)] if as_json else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # What other libraries say through the standard library goes to the same place.
    logging.basicConfig(level=max(level, logging.WARNING), stream=sys.stderr, force=True)
