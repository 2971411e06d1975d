"""Converts Spark's exceptions into one sentence each: the condition and the place in the SQL, without the JVM stack."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.errors import AnalysisException, PySparkException

from freshline.definitions.retry import Failure, failure_named, failure_of
from freshline.definitions.schema.workflow import Query
from freshline.errors import EngineError, FreshlineError, JobError, Place
from freshline.spark.read_failures import unreadable
from freshline.storage.layout import full_disk

MAX_SENTENCE = 1_500
SHOWN = 160  # characters of a line of SQL
STATE = re.compile(r"SQLSTATE: (\w{5})")
# Classes of SQLSTATE: data exceptions, syntax errors and unknown names, features that are not supported.
PERMANENT_STATES = frozenset({"22", "42", "0A"})
PYTHON_CLASS = re.compile(r"([A-Za-z_][\w.]*)")
NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
CLASSES = {
    "s3a": "S3AFileSystem",
    "gs": "GoogleHadoopFileSystem",
    "abfs": "AzureBlobFileSystem",
    "abfss": "SecureAzureBlobFileSystem",
}
CLIENTS = "put the store's Hadoop client, such as hadoop-aws, on Spark's class path: docs/tables.md, 'Where tables are'"


def explain(error: BaseException) -> str | None:
    """Return Spark's message in short, without content of files; None if it is not an error of Spark."""
    thrown = getattr(error, "java_exception", None)
    if (thrown is not None or isinstance(error, PySparkException)) and (short := unreadable(error)):
        return short
    if thrown is not None:
        return _cause(str(thrown))
    if isinstance(error, PySparkException):
        return _shorten(str(error))
    if type(error).__module__.startswith("py4j."):  # the bridge itself, which is not a direct dependency
        return f"the connection to Spark broke: {error}"[:MAX_SENTENCE]
    return None


def failed(error: Exception, views: Mapping[str, str], query: Query | None = None) -> FreshlineError:
    """Return the error for a query or a write that failed. `views`: names that the SQL may use, by asset."""
    if full := full_disk(error):
        return full
    if isinstance(error, AnalysisException) and error.getCondition() == NOT_FOUND:
        shown = _not_found(error, views)
    else:
        shown = JobError(explain(error) or f"{type(error).__name__}: {error}")
    return classified(shown if query is None else _placed(shown, error, query), error)


def classified(shown: JobError, error: BaseException) -> JobError:
    """Add to an error what the exception behind it means for further tries."""
    failure = classify(error)
    shown.raised, shown.permanent = failure.names, failure.permanent
    return shown


def classify(error: BaseException) -> Failure:
    """Return what an exception of Spark, or of Python code inside it, means for further tries."""
    text = explain(error)
    if text is None:
        return failure_of(error)
    known = failure_of(error)
    python = PYTHON_CLASS.match(text) if "Traceback (most recent call last)" in _whole(error) else None
    inner = failure_named(python[1]) if python else Failure()
    state = STATE.findall(text)
    permanent = isinstance(error, AnalysisException) or inner.permanent or (state and state[-1][:2] in PERMANENT_STATES)
    return Failure(known.names + inner.names, bool(permanent or known.permanent))


def _whole(error: BaseException) -> str:
    return f"{error}\n{getattr(error, 'java_exception', '')}"


def no_client(error: Exception, address: str) -> EngineError | None:
    """Return the error for a Spark without a client for the warehouse's store: not the workflow's failure."""
    scheme, text = address.partition("://")[0], explain(error) or ""
    said = (f'No FileSystem for scheme "{scheme}"', f"{CLASSES.get(scheme)} not found")
    if not any(one in text for one in said):
        return None
    return EngineError(f"Spark has no client for the warehouse: {text}", hint=CLIENTS)


def _placed(shown: JobError, error: Exception, query: Query) -> JobError:
    """Add the line of SQL that Spark refers to, and its place if the query is in a file."""
    line, column = _position(_whole(error))
    text = query.text.splitlines()
    excerpt = ""
    if 1 <= line <= len(text):
        shift = max(0, column - SHOWN // 2)  # of a long line the part around the position is shown
        lead = f"  {line} | "
        excerpt = f"\n{lead}{text[line - 1][shift : shift + SHOWN]}\n{' ' * (len(lead) + column - shift)}^"
    message = (
        shown.message.split("\n\n== SQL", maxsplit=1)[0].split("\n== SQL", maxsplit=1)[0] if excerpt else shown.message
    )
    place = Place(query.file, line or None) if query.file else None
    return JobError(message + excerpt, place=place, hint=shown.hint)


def _position(text: str) -> tuple[int, int]:
    """Return line, from 1, and column, from 0; line 0 if unknown. Spark counts columns in two ways."""
    found = re.search(r"line (\d+),? pos(ition)? (\d+)", text)
    if found is None:
        return 0, 0
    return int(found[1]), int(found[3]) - (1 if found[2] else 0)


def _not_found(error: AnalysisException, views: Mapping[str, str]) -> JobError:
    name = (error.getMessageParameters() or {}).get("relationName", "?")
    position = re.search(r"line \d+,? pos \d+", str(error))
    where = f" ({position[0]})" if position else ""
    there = ", ".join(f"{view} (asset {asset})" for asset, view in views.items()) or "none"
    return JobError(
        f"[{NOT_FOUND}] the SQL reads {name}, which is not there{where}; the views of this step are: {there}",
        hint="a table that is read must be in 'consumes'",
    )


def _shorten(text: str) -> str:
    """Return `text` without the query plan and the stack trace that Spark appends."""
    if python := _of_python(text):
        return python
    text = re.split(r";?\n\s*(?:'|\+-|JVM stacktrace|Driver stacktrace|\tat |at org\.)", text, maxsplit=1)[0]
    return text.strip()[:MAX_SENTENCE]


def _cause(text: str) -> str:
    """Return the innermost cause of a JVM exception."""
    causes = re.findall(r"Caused by: (.*)", text)
    return _shorten(causes[-1] if causes else text)


def _of_python(text: str) -> str | None:
    """Return the last line of a traceback of a Python function inside Spark."""
    if "Traceback (most recent call last)" not in text:
        return None
    lines = re.findall(r"^(\w[\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)$", text, re.MULTILINE)
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [place for place in places if "pyspark" not in place[0]]
    where = f" (at {own[-1][0]}:{own[-1][1]})" if own else ""
    return f"{lines[-1]}{where}"[:MAX_SENTENCE] if lines else None
