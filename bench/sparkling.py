"""A project with Spark steps and a warm worker, and a bare Spark session: used by both Spark benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.bare import Bare
from bench.measure import phase
from bench.play import queued_to_published
from bench.server import Listener, Project, listening, opened, started, worker
from freshline.store.store import Store

DEFINITION = """
slug: {slug}
parameters: {{salt: 0}}
steps:
  - id: work
    timeoutMs: 1800000
    job: {{kind: spark.sql, sql: "{sql}"}}
    produces: [{{assetId: {slug}, checks: {checks}}}]
"""


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, open and warm."""

    store: Store
    listener: Listener
    bare: Bare
    settings: Mapping[str, str]
    query: str

    def freshline(self, slug: str, salt: int) -> float:
        """Return the seconds from queued to published."""
        return queued_to_published(self.store, self.listener, slug, {"salt": salt})

    def plain(self, salt: int, *, raw: bool = False) -> float:
        """Return the seconds of the same query, written by a bare session. `raw`: with the options of steps."""
        return self.bare.write(self.query.replace(":salt", str(salt)), raw=raw)


@contextmanager
def sides(query: str, workflows: Mapping[str, Sequence[Any]], *, warm: int) -> Iterator[Sides]:
    """Yield both sides for one query with these checks. `:salt` makes the rows of each run new."""
    with started() as server:
        url = server.database()
        project = Project(server.home / "sparkling", url)
        for slug, checks in workflows.items():
            text = DEFINITION.format(slug=slug, sql=query, checks=list(checks))
            (project.root / "workflows" / f"{slug}.yaml").write_text(text)
        project.call("apply", "--yes")
        with (
            worker(project),
            Bare(server.home / "bare") as bare,
            opened(url, silent=True) as store,
            listening(url) as listener,
        ):
            both = Sides(store, listener, bare, server.settings, query)
            with phase("two sessions, started and warm"):
                for number in range(warm):
                    both.plain(-number)
                    for slug in workflows:
                        both.freshline(slug, -number)
            yield both
