"""Converts an exception of user code into one error: a sentence, the place in the user's files, a short traceback."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import freshline
from freshline.definitions.retry import Failure, failure_of
from freshline.errors import Place
from freshline.worker.step_errors import JobFailedError

OURS = str(Path(freshline.__path__[0]))
MAX_MESSAGE = 2_000


def user_error(
    error: BaseException,
    sentence: str | None = None,
    conceal: Callable[[BaseException], str | None] | None = None,
    classify: Callable[[BaseException], Failure] = failure_of,
) -> JobFailedError:
    """Return the error to show, without the frames of Freshline and of the import machinery.

    `conceal` returns what replaces the text of an exception that quotes a file, `classify` what the exception means for
    further tries.
    """
    frames = _users(error.__traceback__)
    shown = sentence or _sentence(error)
    hidden = {str(one): short for one in _chain(error) if conceal and (short := conceal(one))}
    for text, short in hidden.items():
        shown = shown.replace(text, short)
    if hidden:
        trace = "".join([*traceback.format_tb(frames), f"{type(error).__name__}: {shown}\n"])
    else:
        trace = "".join(traceback.format_exception(type(error), error, frames))
    return JobFailedError(shown, place=_place(error, frames), traceback=trace).classified(classify(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised from or during."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _sentence(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the job called sys.exit({error.code!r}); return from the function or raise an exception instead"
    if isinstance(error, ModuleNotFoundError):
        return f"{error.msg}; modules are found from the project's root and among the installed packages"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk is full: {error}"
    return f"{type(error).__name__}: {error}"[:MAX_MESSAGE].rstrip(": ")


def _users(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins at the user's first line."""
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_ours(filename: str) -> bool:
    return filename.startswith((OURS, "<frozen importlib")) or "/importlib/" in filename


def _place(error: BaseException, trace: TracebackType | None) -> Place | None:
    """Return the last line of the project itself, where the user can fix it."""
    if isinstance(error, SyntaxError) and error.filename:
        return Place(_relative(error.filename) or error.filename, error.lineno)
    found = None
    while trace is not None:
        if name := _relative(trace.tb_frame.f_code.co_filename):
            found = Place(name, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _relative(filename: str) -> str | None:
    """Return `filename` relative to the project's root, which is the runner's directory; None if it is outside."""
    try:
        path = Path(filename).relative_to(Path.cwd())
    except ValueError:
        return None
    return None if "site-packages" in path.parts else str(path)
