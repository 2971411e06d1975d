"""Start-up time of the command line, a worker and its Spark session, against bare ones."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.bare import Bare
from bench.measure import Claim, Options, Pairs, Result, seconds
from bench.server import Project, Server, listening, started

GOAL_MS = 300.0
FIRST = 3  # starts of a worker, and of its Spark session in turns with a bare one
WORKFLOWS = """
slug: {name}
steps:
  - id: work
    job: {job}
    produces: [{{assetId: {name}}}]
"""
PYTHON = "{kind: python, entrypoint: 'jobs:work'}"
SPARK = "{kind: spark.sql, sql: 'SELECT 1 AS one'}"
JOBS = "def work(ctx):\n    return {'assets': [{'assetId': 'plain', 'dataVersion': ctx.run_id}]}\n"
ENDED = "SELECT status NOT IN ('queued', 'running') FROM runs WHERE id = %s"


def run(options: Options) -> Result:
    """Measure `--help` and `status` in turns with `python -c pass`; then processes from start to the end of a run."""
    pairs, statuses = Pairs(), Pairs()
    with started() as server:
        project = _project(server, spark=not options.quick)
        project.call("apply", "--yes")
        bare = [sys.executable, "-c", "pass"]
        for number in range(-1, options.size(15, 2)):
            help_ = 1000 * seconds(lambda: project.call("--help"))
            nothing = 1000 * seconds(lambda: subprocess.run(bare, check=True, cwd=project.root, env=project.environ))
            status = 1000 * seconds(lambda: project.call("status"))
            if number >= 0:  # the first one fills the file system's cache
                pairs.add(help_, nothing)
                statuses.add(status, nothing)
        first = [_first_run(project, "plain") for _ in range(options.size(FIRST, 1))]
        sessions = Pairs()
        for number in range(options.size(FIRST, 0)):
            sessions.add(_first_run(project, "sparkling"), _bare_session(server.home / f"bare-{number}"))
        figures: dict[str, object] = {"worker_first_python_run_s": first, "server": server.settings}
    if sessions.measured:
        figures |= {"worker_first_spark_run_s": sessions.measured, "bare_session_first_result_s": sessions.baseline}
    claims = [
        Claim("--help, against bare Python", pairs.ratio),
        Claim("--help", statistics.median(pairs.measured), GOAL_MS, unit=" ms"),
        Claim("status", statistics.median(statuses.measured), GOAL_MS, unit=" ms"),
        Claim("start of a worker to the end of its first run", 1000 * statistics.median(first), unit=" ms"),
        *([Claim("the same with Spark, against a bare session", sessions.ratio)] if sessions.measured else []),
    ]
    return Result("startup", claims, pairs.measured, pairs.baseline, "ms", figures)


def _project(server: Server, *, spark: bool) -> Project:
    project = Project(server.home / "startup", server.database())
    (project.root / "jobs.py").write_text(JOBS)
    for name, job in (("plain", PYTHON), *([("sparkling", SPARK)] if spark else [])):
        (project.root / "workflows" / f"{name}.yaml").write_text(WORKFLOWS.format(name=name, job=job))
    return project


def _bare_session(home: Path) -> float:
    """Return the seconds from the start of a process with Spark's default settings to its first result."""
    began = time.perf_counter()
    with Bare(home, plain=True) as session:
        session.write("SELECT 1 AS one")
        return time.perf_counter() - began


def _first_run(project: Project, slug: str) -> float:
    """Return the seconds from the start of a worker to the end of its first run."""
    url = project.environ["FRESHLINE_DATABASE_URL"]
    run_id = project.call("run", slug, "--json")
    with listening(url) as listener:
        newest = listener.value("SELECT id FROM runs ORDER BY queued_at DESC LIMIT 1")
        assert str(newest) in run_id
        began = time.perf_counter()
        with project.running("worker"):
            return listener.until("events", ENDED, newest) - began
