"""Renames a project in one transaction: its workflows, pools, sources and active runs."""

from __future__ import annotations

from typing import TypedDict

from freshline.definitions.names import PROJECT
from freshline.errors import ConflictError, NotFoundError, UsageError
from freshline.store.db import locks
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.suggest import did_you_mean

SQL = load("apply")
ALERTS = load("alerts")
DB = load("db")


class Renamed(TypedDict):
    """What got the new name, as JSON."""

    before: str
    project: str
    workflows: int
    pools: int
    sources: int
    runs: int


def rename(connection: Connection, before: str, after: str) -> Renamed:
    """Rename a project. Queued and running runs go on; ended ones keep the name under which they ran.

    Considerations come first, as in apply: their locks keep reconcilers from queueing a run under the former name.
    Runs come after workflows, so that a manual run that was requested meanwhile is seen.
    """
    connection.execute("SET LOCAL lock_timeout = '30s'")
    connection.execute(DB["lock"], {"key": locks.APPLY})
    _check(connection, before, after)
    names = {"before": before, "after": after}
    rows = connection.execute(SQL["project_workflows"], names).fetchall()
    used = [row["id"] for row in rows if not row["retired"]]
    connection.execute(SQL["consider"], {"workflows": used})
    connection.execute(SQL["copy_project"], names)
    pools = connection.execute(SQL["rename_pools"], names).rowcount
    connection.execute(SQL["rename_workflows"], names)
    runs = connection.execute(SQL["rename_runs"], {**names, "workflows": [row["id"] for row in rows]}).rowcount
    sources = connection.execute(SQL["rename_sources"], names).rowcount
    connection.execute(ALERTS["rename_rules"], names)
    connection.execute(SQL["drop_project"], names)
    return {
        "before": before,
        "project": after,
        "workflows": len(used),
        "pools": pools,
        "sources": sources,
        "runs": runs,
    }


def _check(connection: Connection, before: str, after: str) -> None:
    if not PROJECT.fullmatch(after):
        allowed = "1-100 letters, digits and . _ -, a letter or digit first"
        raise UsageError(f"a project cannot be called {after[:120]!r}; allowed are {allowed}")
    known = [row["name"] for row in connection.execute(SQL["project_names"])]
    if before not in known:
        other = f"known are {', '.join(known[:5])}" if known else "nothing is applied yet; run `freshline apply`"
        raise NotFoundError(f"project '{before}' does not exist", hint=did_you_mean(before, known) or other)
    if after in known:
        raise ConflictError(
            f"there is a project '{after}' already; two projects cannot be merged", hint="choose another"
        )
