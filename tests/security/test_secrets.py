"""A hostile job finds no credential of Freshline and no secret of another workflow, as root and as another user."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.processes import children
from tests.security.attacked import Attacked, deployment_under_attack, free_user
from tests.waiting import wait_until

PATHS = [
    "/status",
    "/runs",
    "/events",
    "/decisions",
    "/workflows",
    "/workflows/attack",
    "/workers",
    "/metrics",
    "/audit",
]
LEAST_TRIES = 2_000
WAYS = {
    "environment",
    "own process",
    "objects",
    "own memory",
    "memory",
    "processes",
    "descriptors",
    "files",
    "ports",
    "api",
}
USERS = [pytest.param(None, id="this-user")]
if os.geteuid() == 0:
    USERS.append(pytest.param(free_user(), id="another-user"))

pytestmark = pytest.mark.process


def _define(deployment: Attacked) -> None:
    """Write two workflows: one that has a secret, and one that searches for it after the first has run."""
    port = deployment.api_port
    steps = "steps:\n  - id: step\n    job: {kind: python, entrypoint: 'attack:%s'}\n    consumes: [{assetId: %s}]\n"
    produces = "    retry: {maxAttempts: 1}\n    produces: [{assetId: %s, autoMaterialize: {onUpstreamUpdate: true}}]\n"
    parameters = {
        "marker": deployment.canaries.marker,
        "ports": [port],
        "api": f"http://127.0.0.1:{port}/api/v1",
        "paths": PATHS,
    }
    workflows = deployment.root / "workflows"
    (workflows / "other.yaml").write_text(
        f"slug: other\nsecrets: [OTHER_SECRET]\n{steps % ('hold', 'source')}{produces % 'other'}"
    )
    (workflows / "attack.yaml").write_text(
        f"slug: attack\nparameters: {json.dumps(parameters)}\n{steps % ('attack', 'other')}{produces % 'attack'}"
    )


def _processes(pid: int) -> list[int]:
    return [pid, *(one for child in children(pid) for one in _processes(child))]


def _shown(pid: int) -> str:
    return "".join(Path(f"/proc/{pid}/{file}").read_text(errors="replace") for file in ("environ", "cmdline"))


@pytest.mark.parametrize("user", USERS)
def test_a_hostile_job_finds_no_credential(database_url: str, user: int | None) -> None:
    """Neither in what the kernel shows, nor in memory, files, logs, ports and answers of the API; it tries them all."""
    with deployment_under_attack(database_url, user) as deployment:
        _define(deployment)
        deployment.apply()
        started = [deployment.spawn(*command) for command in (["materializer"], ["worker"], ["api"])]
        wait_until(lambda: len(deployment.reader.workers()) == 3, 60, what="three processes")
        deployment.cli("report", "source")
        wait_until((deployment.root / "findings.json").exists, 60, what="the findings of the job")
        deployment.wait_fresh("attack")
        found = json.loads((deployment.root / "findings.json").read_text())
        _check(deployment, found)
        for process in started:
            for pid in _processes(process.pid):
                assert deployment.canaries.within(_shown(pid)) == []
    assert found["uid"] == (os.getuid() if user is None else user)


def _check(deployment: Attacked, found: dict[str, Any]) -> None:
    canaries, tries = deployment.canaries, found["tries"]
    assert found["found"] == []
    assert set(tries) >= WAYS | (set() if found["uid"] == 0 else {"memory of others"})
    assert sum(tries.values()) > LEAST_TRIES, tries
    stored = [(table, canaries.within(row)) for table, row in deployment.everything_stored()]
    assert len(stored) > 20
    assert [one for one in stored if one[1]] == []
    lines = [line["text"] for run in deployment.runs() for line in deployment.reader.logs(run["id"])]
    assert "the other workflow has ['***']" in lines
    assert canaries.within(deployment.logs()) == []
    warnings = [log.read_text().count("running_as_root") for log in sorted(deployment.root.glob("*.log"))]
    assert warnings == [0, 0, int(found["uid"] == 0)], "one warning, of the worker: its jobs run as root"
