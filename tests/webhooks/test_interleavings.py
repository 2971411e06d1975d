"""Every pair of what is done to a webhook, in every order of their statements, on real connections.

Afterwards: nobody deadlocked, nobody stays locked out, every event arrives, and none is recorded as arrived twice,
whatever was paused, resumed, sent again, removed or fenced meanwhile. The gate plays two senders with one switch in
the middle of a transaction; `make full` plays every pair with two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement

import pytest

from freshline.errors import FencedError, NotFoundError
from freshline.store.webhooks.delivery import Batch, Outcome
from freshline.store.webhooks.subscriptions import Webhook
from tests.store.saved import Saved
from tests.store.schedule import Act, Stage, Trace, long_timeout_laboratory, stepped
from tests.store_harness import Lab, workflow

EVENTS = 5
LEASE_MS = 60_000
ACTS = ("late", "pause", "redeliver", "remove", "resume", "turn")
PAIRS = list(combinations_with_replacement(ACTS, 2))
DELIVERERS = [("late", "late"), ("late", "turn"), ("turn", "turn")]
ROWS = "SELECT position FROM events WHERE position > %s ORDER BY position"


class Post:
    """A webhook with a dead letter, one that failed, and three new ones, held by a sender whose lease is over."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.stage = Stage(lab)
        self.recorded: list[int] = []
        lab.apply(workflow("b", "a"))
        lab.store.events.stamp_positions(1000)
        after = lab.one("SELECT max(position) FROM events")
        lab.store.webhooks.add(Webhook("hook", "https://example.org", b"x" * 32), after=after)
        self.events = self._events(after)
        self._dead_and_failed()
        lab.advance(hours=2)
        self._late = self._claimed(EVENTS - 1)
        lab.advance(hours=2)
        self.scene = Saved(lab, "post")

    def _events(self, after: int) -> set[int]:
        for number in range(EVENTS):
            self.lab.report("a", str(number))
        self.lab.store.events.stamp_positions(1000)
        return {row["position"] for row in self.lab.rows(ROWS, after)}

    def _claimed(self, letters: int) -> Batch:
        batch = self.lab.store.deliveries.claim(lease_ms=LEASE_MS)
        assert batch is not None
        assert len(batch.letters) == letters
        return batch

    def _dead_and_failed(self) -> None:
        first = self._claimed(EVENTS)
        dead, failed, *_ = first.letters
        self.dead = dead.position
        outcomes = [Outcome(dead, "planted", final=True), Outcome(failed, "planted")]
        self.lab.store.deliveries.record(first, outcomes)

    def acts(self, names: tuple[str, str]) -> dict[str, Act]:
        """One act for each name; two of a kind get different names."""
        store = self.lab.store
        known: dict[str, Act] = {
            "late": self._late_record,
            "pause": lambda: store.webhooks.pause("hook"),
            "redeliver": lambda: store.webhooks.redeliver("hook"),
            "remove": lambda: store.webhooks.remove("hook"),
            "resume": lambda: store.webhooks.resume("hook"),
            "turn": self.turn,
        }
        return {f"{name}{'+' * names[:number].count(name)}": known[name] for number, name in enumerate(names)}

    def turn(self) -> Batch | None:
        """Run a sender whose deliveries all succeed."""
        batch = self.lab.store.deliveries.claim(lease_ms=LEASE_MS)
        if batch is not None and batch.letters:
            self._record(batch, [Outcome(letter) for letter in batch.letters])
        return batch

    def _late_record(self) -> None:
        """One whose lease is over: the first letter arrived, the second did not, and then its turn was over."""
        one, two, *_ = self._late.letters
        self._record(self._late, [Outcome(one), Outcome(two, "planted")])

    def _record(self, batch: Batch, outcomes: list[Outcome]) -> None:
        self.lab.store.deliveries.record(batch, outcomes)
        self.recorded += [one.letter.position for one in outcomes if one.trouble is None]

    def play(self, names: tuple[str, str], *, switches: int) -> int:
        """Every schedule of these, judged; how many there were."""
        played = 0
        for trace in self.stage.explore(self.acts(names), switches=switches, before=self._begin, most=2_000):
            self._check(trace, names)
            played += 1
        return played

    def _begin(self) -> None:
        self.scene.restore()
        self.recorded.clear()

    def _check(self, trace: Trace, names: tuple[str, str]) -> None:
        for actor in trace.actors:
            assert actor.error is None or isinstance(actor.error, FencedError | NotFoundError), (
                f"{actor.name}: {actor.error!r}: {trace}"
            )
        if "remove" in names:
            assert self.lab.one("SELECT count(*) FROM webhooks") == 0, f"{trace}"
            assert self.lab.one("SELECT count(*) FROM webhook_deliveries") == 0, f"{trace}"
            return
        self._deliver_the_rest()
        wanted = self.events if "redeliver" in names else self.events - {self.dead}
        assert Counter(self.recorded) == Counter(wanted), f"{trace}"

    def _deliver_the_rest(self) -> None:
        self.lab.store.webhooks.resume("hook")
        self.lab.advance(hours=2)
        for _ in range(EVENTS):
            if self.turn() is None:
                return
        raise AssertionError("there is always more")


@pytest.fixture(scope="module")
def post(module_database_url: str) -> Iterator[Post]:
    """One database for all."""
    with long_timeout_laboratory(module_database_url) as lab:
        post = Post(lab)
        yield post
        post.stage.close()


@pytest.mark.parametrize("names", DELIVERERS, ids="-".join)
def test_a_switch_inside_two_deliverers(post: Post, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    """One whose lease is over and one that has the webhook now, or two that want it."""
    with stepped(monkeypatch):
        assert post.play(names, switches=1) >= 4


@pytest.mark.full
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_two_switches_inside_every_pair(post: Post, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    """In both directions, at each place, for senders and for manual changes."""
    with stepped(monkeypatch):
        assert post.play(names, switches=2) >= 2
