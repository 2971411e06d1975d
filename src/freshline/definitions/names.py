"""The rules for names that users choose: asset ids, slugs, steps, views and others."""

from __future__ import annotations

import re

from freshline.model.allowed_paths import prefix

ASSET_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
STEP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
COLUMN_LIMIT = 200
ENTRYPOINT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
SPARK_SETTING = re.compile(r"spark\.[A-Za-z0-9._-]{1,194}")
PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PARTITION_KEY = "partition_key"  # parameters of queries that Freshline sets in workflows with partitions
PARTITION_TIMES = ("partition_start", "partition_end")
POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def asset_id(value: str) -> str:
    """Return `value` if it is an asset id; raise `ValueError` otherwise."""
    return _matching(value, ASSET_ID, "an asset id", "1-200 letters, digits and . _ : -, a letter or digit first")


def slug(value: str) -> str:
    """Return `value` if it is a workflow's slug; raise `ValueError` otherwise."""
    return _matching(value, SLUG, "a slug", "1-100 lower-case letters, digits and - _, a letter or digit first")


def step_id(value: str) -> str:
    """Return `value` if it is a step's id; raise `ValueError` otherwise."""
    return _matching(value, STEP_ID, "a step id", "1-100 letters, digits and . _ -, a letter or digit first")


def pool(value: str) -> str:
    """Return `value` if it is the name of a pool; raise `ValueError` otherwise."""
    return _matching(value, POOL, "a pool's name", "1-100 letters, digits and . _ -, a letter or digit first")


def view(value: str) -> str:
    """Return `value` if it is the name of a view; raise `ValueError` otherwise."""
    return _matching(value, VIEW, "a view name", "letters, digits and _, no digit first")


def secret(value: str) -> str:
    """Return `value` if it can be the name of an environment variable; raise `ValueError` otherwise."""
    return _matching(
        value, SECRET, "the name of a secret", "letters, digits and _, no digit first, as in DATABASE_PASSWORD"
    )


def entrypoint(value: str) -> str:
    """Return `value` if it has the form `package.module:function`; raise `ValueError` otherwise."""
    return _matching(value, ENTRYPOINT, "an entry point", "package.module:function, as in jobs.clean:run")


def allowed_prefix(value: str) -> str:
    """Return `value` if it is a directory, a file or a URL; raise `ValueError` otherwise."""
    try:
        prefix(value, "/")
    except ValueError as error:
        raise ValueError(f"{value[:80]!r} {error}") from None
    return value


def spark_setting(value: str) -> str:
    """Return `value` if it can be the name of a setting of Spark; raise `ValueError` otherwise."""
    return _matching(value, SPARK_SETTING, "a setting of Spark", "names as in spark.sql.shuffle.partitions")


def view_of(asset: str) -> str:
    """Return the view under which an asset is read: `flights_clean` for `flights.clean`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", asset)
    return f"_{name}" if name[:1].isdigit() else name


def slug_of(asset: str) -> str:
    """Return the slug of the workflow that a decorated function declares."""
    return re.sub(r"[.:]", "-", asset).lower()


def project_of(directory: str) -> str:
    """Return the name of a project without a name in `freshline.toml`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", directory).strip("-._")[:100] or "project"


def _matching(value: str, pattern: re.Pattern[str], what: str, allowed: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is not {what}; allowed are {allowed}")
    return value
