"""The kind `sql`: a query returns a watermark. SQLAlchemy connects, so any database with a driver can be watched.

The query runs in a transaction that is read-only where the database has that, and is always rolled back. It ends after
the timeout of the watch by the database's own means where it has them. The URL comes from an environment variable;
errors show neither the URL nor its password.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from freshline.definitions.schema.watch import QUERIES, SqlWatch
from freshline.model.json import Json
from freshline.watching.look import Look, LookContext, LookError, Mode, masked, missing_extra
from freshline.watching.watermark import compare, watermark_of

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

MOST_ENGINES = 64
PROGRESS_STEPS = 10_000  # instructions of SQLite between two looks at the clock
# The names of sqlglot for what a URL begins with; the tokens of other databases are read as standard SQL.
DIALECTS = {
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "mssql": "tsql",
    "oracle": "oracle",
    "snowflake": "snowflake",
    "bigquery": "bigquery",
    "redshift": "redshift",
    "trino": "trino",
    "clickhouse": "clickhouse",
    "duckdb": "duckdb",
}
SECRET_OPTION = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
EXAMPLES = "as in postgresql://user:password@host/database or mysql+pymysql://..."


def look(spec: SqlWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Run the query and compare its value with the last one."""
    try:
        import sqlalchemy  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError:
        raise missing_extra("`watch: {sql: ...}`", "SQLAlchemy", "sql") from None
    text = context.secret(spec.url, "url")
    url = _url(text, spec)
    check_query(spec.sql, url.get_backend_name())
    with _readable_errors(spec, url, text):
        value = _value(_engine(url, max(1, round(context.timeout_s))), spec.sql, context.timeout_s)
    return compare(mode, position, watermark_of(value), context, noun="watermark")


def check_query(query: str, backend: str) -> None:
    """Raise `LookError` unless the text is one query."""
    import sqlglot  # noqa: PLC0415 - half a second, which other kinds do not need
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    try:
        tokens = sqlglot.tokenize(query, read=DIALECTS.get(backend))
    except SqlglotError:
        raise LookError("the query cannot be read; a quote or a comment may have no end") from None
    words = [token.text for token in tokens]
    while words and words[-1] == ";":
        words.pop()
    semicolons = [token.token_type for token in tokens[: len(words)]].count(sqlglot.TokenType.SEMICOLON)
    if semicolons:
        raise LookError(f"the query has {semicolons + 1} statements; allowed is one")
    first = next((word.upper() for word in words if word != "("), "")
    if first not in QUERIES:
        allowed = ", ".join(QUERIES)
        raise LookError(f"the query begins with {first[:40]!r}; allowed are queries, which begin with {allowed}")


def _url(text: str, spec: SqlWatch) -> URL:
    """Parse the URL. The errors of SQLAlchemy may show it, so they are not used."""
    from sqlalchemy import make_url  # noqa: PLC0415
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise LookError(
            f"the value of {spec.url.env} is not the URL of a database; allowed are URLs of SQLAlchemy, {EXAMPLES}",
            hint="percent-encode special characters of the password",
        ) from None
    if url.drivername in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")  # which Freshline has anyway
    return _read_only_file(url) if url.get_backend_name() == "sqlite" else url


def _read_only_file(url: URL) -> URL:
    """Return the URL of a SQLite file that is opened for reading: another open would make a missing file."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return url
    path = quote(str(Path(url.database).absolute()))
    return url.set(database=f"file:{path}", query={**url.query, "mode": "ro", "uri": "true"})


@lru_cache(maxsize=MOST_ENGINES)
def _engine(url: URL, timeout_s: int) -> Engine:
    """Return an engine without a pool: looks are rare, and an idle connection may be one that the database misses."""
    from sqlalchemy import create_engine  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    return create_engine(url, poolclass=NullPool, connect_args=_connect_args(url, timeout_s), hide_parameters=True)


def _connect_args(url: URL, timeout_s: int) -> dict[str, Any]:
    """Return the timeouts that the driver takes. Of other drivers the service only abandons the look."""
    match url.drivername:
        case "postgresql+psycopg" | "postgresql+psycopg2":
            return {"connect_timeout": timeout_s, "application_name": "freshline watcher"}
        case "mysql+pymysql" | "mariadb+pymysql":
            return {"connect_timeout": timeout_s, "read_timeout": timeout_s, "write_timeout": timeout_s}
        case "sqlite" | "sqlite+pysqlite":
            return {"timeout": timeout_s}
    return {}


def _value(engine: Engine, query: str, timeout_s: float) -> Any:
    """Return the only value of the query."""
    ends = time.monotonic() + timeout_s
    with engine.connect() as connection:
        _limit(connection, ends - time.monotonic())
        # Without parameters, so that `%` and `:name` stay as they are; streamed, so that a table is not loaded.
        connection.execution_options(no_parameters=True, stream_results=True, max_row_buffer=2)
        with connection.exec_driver_sql(query) as result:
            columns = len(result.keys())
            rows = result.fetchmany(2) if columns == 1 else []
    if columns != 1:
        raise LookError(f"the query returned {columns:,} columns; allowed is one, the watermark")
    if not rows:
        raise LookError(
            "the query returned no row; it must return one, the watermark",
            hint="an aggregate always returns one, as in SELECT max(updated_at) FROM orders",
        )
    if len(rows) > 1:
        raise LookError(
            "the query returned more than one row; it must return one, the watermark",
            hint="use an aggregate, as in SELECT max(updated_at) FROM orders",
        )
    return rows[0][0]


def _limit(connection: Connection, left_s: float) -> None:
    """Let the database end the query after the timeout, and refuse writes."""
    millis = max(1, round(left_s * 1_000))
    match connection.dialect.name:
        case "postgresql":
            from sqlalchemy import text  # noqa: PLC0415

            connection.execution_options(postgresql_readonly=True)
            connection.execute(text("SELECT set_config('statement_timeout', :ms, true)"), {"ms": str(millis)})
        case "mysql" | "mariadb":
            connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
            if getattr(connection.dialect, "is_mariadb", False):
                connection.exec_driver_sql("SET SESSION max_statement_time = %s", (millis / 1_000,))
            else:
                connection.exec_driver_sql("SET SESSION max_execution_time = %s", (millis,))
        case "sqlite":
            ends = time.monotonic() + left_s
            raw = connection.connection.driver_connection
            assert raw is not None  # noqa: S101 - it is connected
            raw.set_progress_handler(lambda: time.monotonic() > ends, PROGRESS_STEPS)
            connection.exec_driver_sql("PRAGMA query_only = ON")


@contextmanager
def _readable_errors(spec: SqlWatch, url: URL, text: str) -> Iterator[None]:
    """Turn errors of drivers into sentences without the URL and its password."""
    from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError  # noqa: PLC0415

    options = (str(value) for name, value in url.query.items() if SECRET_OPTION.search(name))
    secrets = {text, str(url.password or ""), *options}
    try:
        yield
    except NoSuchModuleError:
        raise LookError(
            f"the URL in {spec.url.env} begins with {url.drivername}, and no installed package knows it",
            hint="install the package of its dialect beside freshline; docs/sources.md lists some",
        ) from None
    except ModuleNotFoundError as error:
        raise LookError(
            f"the URL in {spec.url.env} begins with {url.drivername}, which needs the Python package {error.name}, "
            "and that is not installed",
            hint="install it beside freshline, or name another driver, as in mysql+pymysql://...",
        ) from None
    except DBAPIError as error:
        raise LookError(f"the query failed: {masked(str(error.orig), secrets)}") from None
    except SQLAlchemyError as error:
        raise LookError(f"the query failed: {masked(str(error), secrets)}") from None
