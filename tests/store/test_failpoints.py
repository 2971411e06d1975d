"""A crash at every transaction boundary: before the commit nothing happened, after it everything did, once.

Every transaction, on both sides of its commit, in every way: the process raises, is killed, sleeps for longer than its
lease, or loses its connection.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest

from freshline import failpoints
from freshline.errors import FencedError, UsageError
from freshline.failpoints import FailpointError, Subject
from freshline.store.db.database import LostConnectionError
from tests.store.saved import Saved
from tests.store.transaction_cases import CASES, NAMES, WORKFLOWS, Case, Scene, die
from tests.store_harness import Lab, laboratory
from tests.waiting import wait_until

LEASE_S = 15
# If the answer to one of these is lost, the result is looked up by its key. These retry by themselves,
KEYED = {"report", "report_together", "request_run"}
# and these leave the retry to the worker, which knows the end of its lease.
ENDING = {"cancel_running", "fail_run", "hand_back", "publish_run"}
forkserver = multiprocessing.get_context("forkserver")
forkserver.set_forkserver_preload(["pytest", "tests.store.transaction_cases"])  # once instead of in every process


class Theatre:
    """One database for all cases: each initial state is prepared once and restored for every case that uses it."""

    def __init__(self, lab: Lab, url: str) -> None:
        self.lab = lab
        self.url = url
        self._empty = Saved(lab, "empty")
        self._scenes: dict[Callable[[Scene], Any], tuple[Saved, Scene]] = {}

    def scene(self, case: Case) -> Scene:
        """Return the state in which the case begins."""
        if case.prepare not in self._scenes:
            self._empty.restore()
            scene = Scene(self.lab)
            case.prepare(scene)
            self._scenes[case.prepare] = Saved(self.lab, str(len(self._scenes))), scene
        saved, scene = self._scenes[case.prepare]
        saved.restore()
        return Scene(self.lab, scene.run, list(scene.ids))


@pytest.fixture(scope="module")
def theatre(module_database_url: str) -> Iterator[Theatre]:
    """Yield the database that all cases share."""
    with laboratory(module_database_url) as lab:
        lab.apply(*WORKFLOWS)
        yield Theatre(lab, module_database_url)


def crash() -> None:
    """Crash at the failpoint."""
    raise FailpointError("planted")


class Once:
    """An action that only the first caller performs."""

    def __init__(self, action: Callable[[Subject], None]) -> None:
        self._action = action
        self._done = False

    def __call__(self, subject: Subject) -> None:
        """Act on the first call."""
        if not self._done:
            self._done = True
            self._action(subject)


def kill(theatre: Theatre, scene: Scene, name: str, side: str) -> None:
    """Do it in another process, which is killed."""
    state = scene.lab.worker, scene.run, scene.ids
    process = forkserver.Process(target=die, args=(theatre.url, scene.lab.now, name, side, state))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, "it was not killed at its failpoint"
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    mine = "AND application_name = 'freshline' AND state <> 'idle'"
    wait_until(lambda: scene.lab.one(f"{sessions} {mine}") == 0, what="the end of its sessions")


def oversleep(scene: Scene, subject: Subject) -> None:
    """Let the process sleep beyond its lease; the server ends a transaction that it has begun."""
    assert subject is not None
    scene.lab.advance(seconds=4 * LEASE_S)
    if subject.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        subject.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
        alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        wait_until(lambda: scene.lab.one(alive, subject.info.backend_pid) == 0, what="the end of its session")


def repeat(act: Callable[[Scene], Any], scene: Scene) -> None:
    """Repeat the action as a process that resumes; it may be fenced."""
    try:
        act(scene)
    except FencedError:
        return


def converges(scene: Scene) -> None:
    """Check recovery without help: the next update reaches every workflow once, and nothing is forgotten."""
    lab = scene.lab
    if lab.rows("SELECT FROM projects WHERE name = 'other'"):
        lab.store.apply.rename("other", "lab")  # its workers claim under this name
    lab.store.operations.resume("b")
    lab.report("a", "final")
    for _ in range(3):
        lab.advance(minutes=20)
        lab.store.runs.rescue(10)
        lab.work()
    assert {*lab.active()} <= {"daily"}  # of a project that has no worker here
    assert lab.state("b")["consumed_versions"]["a"]["dataVersion"] == "final"
    assert lab.state("c")["consumed_versions"]["b"]["dataVersion"] == lab.head("b")["data_version"]
    assert lab.forgotten() == 0
    # A manual run keeps the pins of its request (docs/semantics.md#R6.5): if it is late, its outputs are made again.
    doubled = lab.rows(
        "SELECT pins FROM runs r WHERE status = 'succeeded' AND trigger ->> 'reason' IN ('missing', 'upstream-update')"
        " AND NOT EXISTS (SELECT FROM runs m WHERE m.workflow_id = r.workflow_id AND m.trigger_type = 'manual')"
        " GROUP BY workflow_id, pins HAVING count(*) > 1"
    )
    assert doubled == []


def test_every_transaction_has_a_case() -> None:
    """A transaction that is added without a crash case fails here."""
    assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", CASES)
def test_a_crash_before_the_commit_changes_nothing(theatre: Theatre, name: str) -> None:
    """Nothing of it is there, and a repetition does it."""
    case = CASES[name]
    scene = theatre.scene(case)
    before = scene.lab.everything()
    with failpoints.armed(f"{name}:before", crash), pytest.raises(FailpointError):
        case.act(scene)
    assert scene.lab.everything() == before
    assert not case.done(scene)
    case.act(scene)
    assert case.done(scene)
    converges(scene)


@pytest.mark.parametrize("name", CASES)
def test_a_crash_after_the_commit_loses_and_doubles_nothing(theatre: Theatre, name: str) -> None:
    """All of it is there although nobody was told, a repetition does no harm, and the system goes on."""
    case = CASES[name]
    scene = theatre.scene(case)
    with failpoints.armed(f"{name}:after", crash), pytest.raises(FailpointError):
        case.act(scene)
    assert case.done(scene)
    repeat(case.act, scene)
    converges(scene)


@pytest.mark.parametrize("name", CASES)
def test_a_process_that_is_killed_leaves_nothing_half_done(theatre: Theatre, name: str) -> None:
    """SIGKILL of a real process before the commit: not a row changed. After it: done, and a repetition is harmless."""
    case = CASES[name]
    scene = theatre.scene(case)
    before = scene.lab.everything()
    kill(theatre, scene, name, "before")
    assert scene.lab.everything() == before
    kill(theatre, scene, name, "after")
    assert case.done(scene)
    repeat(case.act, scene)
    assert case.done(scene) or name == "claim_run"


@pytest.mark.parametrize("name", CASES)
def test_a_connection_that_is_lost_before_the_commit_changes_nothing(theatre: Theatre, name: str) -> None:
    """The commit fails; what has a key is done on a new connection at once, the rest when it is tried again."""
    case = CASES[name]
    scene = theatre.scene(case)
    before = scene.lab.everything()
    told = nullcontext() if name in KEYED else pytest.raises(LostConnectionError)
    with failpoints.armed_with(f"{name}:before", Once(failpoints.drop)), told:
        case.act(scene)
    if name not in KEYED:
        assert scene.lab.everything() == before
        # The lost session may hold its locks for a moment longer: what it would skip is left for the next try.
        wait_until(lambda: (case.act(scene), case.done(scene))[1])
    assert case.done(scene)


@pytest.mark.parametrize("name", CASES)
def test_a_commit_whose_answer_is_lost_is_no_failure(theatre: Theatre, name: str) -> None:
    """Unknown is not failed: it is looked up by its key, or a repetition is harmless. Nothing is doubled."""
    case = CASES[name]
    scene = theatre.scene(case)
    resolved = (
        nullcontext() if name in KEYED | ENDING else pytest.raises(LostConnectionError, match="may have happened")
    )
    with failpoints.armed_with(f"{name}:after", Once(failpoints.drop)), resolved:
        case.act(scene)
    assert case.done(scene)
    repeat(case.act, scene)
    assert case.done(scene) or name == "claim_run"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_process_that_oversleeps_its_lease_is_harmless(theatre: Theatre, name: str, side: str) -> None:
    """The server ends what it had begun, others go on, and it changes nothing when it wakes up.

    See docs/semantics.md#R11.3.
    """
    case = CASES[name]
    scene = theatre.scene(case)
    before = scene.lab.everything()
    undone = side == "before" and name not in KEYED
    lost = pytest.raises(LostConnectionError) if undone else nullcontext()
    with failpoints.armed_with(f"{name}:{side}", Once(lambda subject: oversleep(scene, subject))), lost:
        case.act(scene)
    if undone:
        assert scene.lab.everything() == before
    scene.lab.store.runs.rescue(10)
    repeat(case.act, scene)
    if scene.run is not None:
        converges(scene)


def test_actions_are_armed_by_their_names() -> None:
    """A misspelt action is refused with what is allowed."""
    with pytest.raises(UsageError, match=r"'explode'; allowed are kill, stop, raise, drop, sleep:SECONDS"):
        failpoints.arm_from("absorb:before=explode")
    with pytest.raises(UsageError, match="'sleep'"):
        failpoints.arm_from("absorb:before=sleep")
