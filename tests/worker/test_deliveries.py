"""Deliveries in a real runner process: a run gets a range of numbers, and the step loads what it looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from freshline.model.deliveries import PAGE, Deliveries, Delivery
from freshline.model.run import ClaimedRun
from freshline.settings import Settings
from freshline.worker.protocol import RunStep, encode
from freshline.worker.runner_process import RunnerProcess
from tests.store_harness import Lab, laboratory, many_deliveries, workflow
from tests.worker.steps import Bench, copy_of, python

pytestmark = pytest.mark.process

JOBS = """
def summary(ctx):
    found = ctx.inputs["drop"].deliveries
    one = found[-1]
    return {"assets": [{"assetId": "out", "payload": {
        "count": len(found), "sum": sum(one.number for one in found), "last": [one.number, one.version, one.payload],
        "slice": [one.number for one in found[1:8:3]], "backwards": [one.number for one in found[:-4:-1]],
        "shown": repr(found)}}]}

def new(ctx):
    found = ctx.new_deliveries("drop")
    return {"assets": [{"assetId": "out", "payload": {"count": len(found), "numbers": [one.number for one in found]}}]}
"""


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a lab with an append source."""
    with laboratory(database_url) as lab:
        lab.apply(workflow("load", "drop"), sources=({"assetId": "drop", "mode": "append"},))
        yield lab


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Yield a runner for Python jobs."""
    (tmp_path / "jobs.py").write_text(JOBS)
    runner = RunnerProcess(tmp_path, spark=False, settings=Settings(project=tmp_path), code=copy_of(tmp_path))
    runner.start()
    yield Bench(tmp_path, runner)
    runner.kill()


class Counted:
    """The store's answers to a step, and how many there were."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.pages = 0

    def __call__(self, asset_id: str, first: int, last: int) -> Sequence[Delivery]:
        """Return a page."""
        self.pages += 1
        return self.lab.store.runs.deliveries(asset_id, "", first, last)


def claimed(lab: Lab) -> ClaimedRun:
    """Request a run and claim it."""
    lab.store.operations.request_run("load")
    return lab.start_of("load")


@pytest.mark.parametrize("count", [2_500, pytest.param(100_000, marks=pytest.mark.full)])
def test_a_long_list_is_loaded_in_pages(lab: Lab, bench: Bench, count: int) -> None:
    """The claim has numbers only. A step can iterate, slice and count, whatever compaction joined in between."""
    many_deliveries(lab, "drop", count)
    lab.advance(days=31)
    lab.store.retention.compact_deliveries(30, 10)
    lab.store.operations.skip_delivery("drop", 3, "damaged")
    run = claimed(lab)
    answers = Counted(lab)
    assert len(encode_input(bench, run)) < 2_000
    payload = bench.run(python("summary"), inputs={"drop": run.inputs["drop"]}, deliveries=answers).outputs[0].payload
    assert payload == {
        "count": count - 1,
        "sum": count * (count + 1) // 2 - 3,
        "last": [count, f"v{count}", None],
        "slice": [2, 6, 9],
        "backwards": [count, count - 1, count - 2],
        "shown": f"<{count - 1:,} deliveries>",
    }
    assert answers.pages <= count / PAGE + 5


def encode_input(bench: Bench, run: ClaimedRun) -> bytes:
    """Return the message with the input of the run, as a runner receives it."""
    return encode(RunStep(1, bench.request(python("summary"), inputs={"drop": run.inputs["drop"]}), {}))


def test_new_deliveries_do_not_load_old_ones(lab: Lab, bench: Bench) -> None:
    """A run costs what is new to it, not the length of the list."""
    many_deliveries(lab, "drop", 12_345)
    run = claimed(lab)
    answers = Counted(lab)
    pinned = replace(run.inputs["drop"], since=12_343)
    payload = bench.run(python("new"), inputs={"drop": pinned}, deliveries=answers).outputs[0].payload
    assert payload == {"count": 2, "numbers": [12_344, 12_345]}
    assert answers.pages == 1


def test_a_skip_in_the_middle_of_a_run_does_not_change_its_list(lab: Lab) -> None:
    """What a run leaves out is fixed when it is claimed. The next run leaves the other one out too."""
    many_deliveries(lab, "drop", 5)
    lab.store.operations.skip_delivery("drop", 2, "damaged")
    run = claimed(lab)
    lab.store.operations.skip_delivery("drop", 4, "damaged")
    assert numbers(lab, run) == [1, 3, 4, 5]
    lab.finish(run)
    assert numbers(lab, claimed(lab)) == [1, 3, 5]


def numbers(lab: Lab, run: ClaimedRun) -> list[int]:
    """Return the numbers of what a run reads."""
    known = run.inputs["drop"].deliveries
    assert known is not None
    return [one.number for one in Deliveries(known, partial(lab.store.runs.deliveries, "drop", ""))]
