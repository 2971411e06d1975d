"""Batches are as large as keeps their transactions short."""

from __future__ import annotations

from contextlib import suppress

from freshline.services.adaptive_batch import LONGEST_S, AdaptiveBatch


class Machine:
    """Takes so long for a row; the clock is its own."""

    def __init__(self, seconds_a_row: float) -> None:
        self.now = 0.0
        self.seconds_a_row = seconds_a_row

    def work(self, pace: AdaptiveBatch, *, fails: bool = False) -> int:
        """One batch; its size."""
        with pace.batch() as size:
            self.now += size * self.seconds_a_row
            if fails:
                raise ValueError
        return size


def paced(seconds_a_row: float, most: int = 500) -> tuple[Machine, AdaptiveBatch]:
    """Return a machine and its batch size."""
    machine = Machine(seconds_a_row)
    return machine, AdaptiveBatch(most, lambda: machine.now)


def test_a_quick_machine_gets_full_batches() -> None:
    """Nothing is gained by small ones."""
    machine, pace = paced(0.0001)
    assert [machine.work(pace) for _ in range(3)] == [500, 500, 500]


def test_a_slow_machine_gets_batches_that_it_can_do_in_time() -> None:
    """Each is halved until it fits, and then stays so: no batch after that is too long."""
    machine, pace = paced(0.01)
    sizes = [machine.work(pace) for _ in range(6)]
    assert sizes == [500, 250, 125, 62, 62, 62]
    assert sizes[-1] * machine.seconds_a_row <= LONGEST_S


def test_a_machine_that_is_quick_again_gets_full_batches_again() -> None:
    """A slow minute costs nothing afterwards."""
    machine, pace = paced(0.01)
    for _ in range(4):
        machine.work(pace)
    machine.seconds_a_row = 0.0001
    assert [machine.work(pace) for _ in range(4)] == [62, 124, 248, 496]
    assert machine.work(pace) == 500


def test_a_batch_that_fails_is_halved_down_to_one_row() -> None:
    """The row that is left fails alone (docs/semantics.md#R11.3)."""
    machine, pace = paced(0.0, most=5)
    for _ in range(4):
        with suppress(ValueError):
            machine.work(pace, fails=True)
    assert pace.size == 1
