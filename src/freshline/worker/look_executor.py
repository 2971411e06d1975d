"""Calls a function that looks at a source, inside the runner."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from freshline.errors import FreshlineError
from freshline.watching.look import Mode
from freshline.watching.python import Returned, returned
from freshline.worker.context import job_logger
from freshline.worker.failures import user_error
from freshline.worker.progress_reporter import ProgressReporter
from freshline.worker.protocol import LookRequest
from freshline.worker.step_executor import entry_function


class LookCall:
    """The one argument of a function that looks at a source.

    `position` is what the function returned as its position last time; None at first. `log` writes to the log of the
    worker.
    """

    def __init__(self, asset_id: str, mode: Mode, position: Any, log: logging.Logger) -> None:
        self.asset_id = asset_id
        self.mode = mode
        self.position = position
        self.log = log


def execute_look(
    request: LookRequest, reporter: ProgressReporter, interruptible: Callable[[], AbstractContextManager[None]]
) -> Returned:
    """Call the function and check what it returns. Convert everything that it raises into one error."""
    context = LookCall(request.asset_id, request.mode, request.position, job_logger(reporter))
    try:
        with interruptible():
            value = entry_function(request.entrypoint)(context)
    except FreshlineError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - user code may raise anything
        raise user_error(error) from None
    return returned(request.entrypoint, request.mode, value)
