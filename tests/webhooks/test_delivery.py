"""Every event reaches every webhook that asked for it, at least once, whatever happens to receivers and senders."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from freshline import failpoints
from freshline.errors import FencedError
from freshline.failpoints import FailpointError
from freshline.services.event_sequencer import EventSequencer
from freshline.services.materializer import Materializer
from freshline.services.webhook_sender import LEASE_MS, WebhookSender
from freshline.store.webhooks.delivery import BATCH, UNREACHABLE_AFTER, Outcome
from freshline.store.webhooks.subscriptions import Webhook
from tests.store_harness import Lab
from tests.waiting import wait_until
from tests.webhooks.conftest import LOOPBACK
from tests.webhooks.receiver import Receiver, secret_bytes, verify


def add(lab: Lab, receiver: Receiver, name: str = "hook", **more: Any) -> None:
    """Add a webhook of the receiver for all future events."""
    lab.store.webhooks.add(Webhook(name, receiver.url, secret_bytes(receiver), **more))


def report(lab: Lab, number: int, asset: str = "a") -> list[str]:
    """So many events, with positions; their ids in order."""
    made = [lab.report(asset)["eventId"] for _ in range(number)]
    lab.store.events.stamp_positions(10_000)
    return made


def deliver(lab: Lab) -> None:
    """All that is due."""
    sender = WebhookSender(lab.store)
    while sender.run_once():
        pass


def hook(lab: Lab, name: str = "hook") -> Any:
    """How a webhook stands."""
    (found,) = [one for one in lab.store.reader.webhooks() if one["name"] == name]
    return found


def test_every_event_arrives_in_order_and_signed(lab: Lab, receiver: Receiver) -> None:
    """As a CloudEvent 1.0 in JSON whose signature a receiver can verify; a changed body or another secret does not."""
    add(lab, receiver)
    made = report(lab, 120)
    deliver(lab)
    assert receiver.ids == made
    one = receiver.received[0]
    assert verify(receiver.secret, one)
    one.body += b" "
    assert not verify(receiver.secret, one)
    two = receiver.received[1]
    assert not verify(Receiver().secret, two)
    assert two.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    event = lab.events("asset.produced")[1]
    assert two.event == {
        "specversion": "1.0",
        "id": str(event["id"]),
        "source": f"/freshline/{lab.store.warehouse_id}",
        "type": "asset.produced",
        "subject": "a",
        "time": "2026-01-05T09:00:00.000000Z",
        "datacontenttype": "application/json",
        "position": event["position"],
        "data": event["data"],
    }
    assert (hook(lab)["delivered"], hook(lab)["waiting"], hook(lab)["dead"]) == (120, 0, 0)


def test_nothing_is_sent_twice_by_deliverers_that_are_well(lab: Lab, receiver: Receiver) -> None:
    """The cursor remembers, for other processes and after restarts too; it begins with what comes after the webhook."""
    report(lab, 3)
    add(lab, receiver)
    made = report(lab, 5)
    deliver(lab)
    deliver(lab)
    assert receiver.ids == made


def test_an_earlier_beginning_can_be_asked_for(lab: Lab, receiver: Receiver) -> None:
    """`after` is a position; 0 means all that is kept."""
    report(lab, 3)
    lab.store.webhooks.add(Webhook("hook", receiver.url, secret_bytes(receiver)), after=0)
    deliver(lab)
    kept = lab.rows("SELECT id FROM events WHERE position IS NOT NULL ORDER BY position")
    assert receiver.ids == [str(row["id"]) for row in kept]


@pytest.mark.parametrize(
    ("types", "assets", "wanted"),
    [
        ("*", "*", "a b b b b other.a other.b other other other"),
        ("asset.*", "*", "a b other.a other.b"),
        ("asset.produced", "b", "b"),
        ("*", "other.*", "other.a other.b other other other"),
        ("workflow.run.succeeded", "b", "b"),
        ("*.succeeded", "*", "b other"),
        ("asset_*", "*", ""),
        ("asset", "*", ""),
    ],
)
def test_only_what_was_asked_for_is_sent(lab: Lab, receiver: Receiver, types: str, assets: str, wanted: str) -> None:
    """By type and asset; an event about a workflow counts for the assets that it makes. Only * is special."""
    add(lab, receiver, types=(types,), assets=(assets,))
    lab.report("a", "1")
    lab.work()
    lab.report("other.a", "1")
    lab.work()
    lab.store.events.stamp_positions(1000)
    deliver(lab)
    assert sorted(one.event["subject"] for one in receiver.received) == sorted(wanted.split())
    last = lab.one("SELECT max(position) FROM events")
    assert lab.one("SELECT position FROM webhooks") == last, "what is not asked for is passed over once"


def test_a_receiver_that_fails_and_recovers_gets_everything(lab: Lab, receiver: Receiver) -> None:
    """While it is away one letter at a time is tried, ever less often; when it is back all comes, none is missing."""
    add(lab, receiver)
    receiver.answer = 503
    made = report(lab, 40)
    deliver(lab)
    assert len(receiver.asked) == UNREACHABLE_AFTER, "then it is left alone"
    found = hook(lab)
    assert (found["failures"], found["trouble"]) == (UNREACHABLE_AFTER, "the receiver answered 503")
    assert found["nextAttemptAt"] > lab.now.isoformat()
    lab.advance(seconds=7)
    deliver(lab)
    assert len(receiver.asked) == UNREACHABLE_AFTER + 1
    lab.advance(seconds=7)
    deliver(lab)
    assert len(receiver.asked) == UNREACHABLE_AFTER + 1, "the second pause is longer than the first"
    receiver.answer = 204
    lab.advance(minutes=1)
    deliver(lab)
    aside, probe, rest = made[: UNREACHABLE_AFTER + 1], made[UNREACHABLE_AFTER + 1], made[UNREACHABLE_AFTER + 2 :]
    assert receiver.ids == [probe, *aside, *rest], "what was set aside meanwhile comes first, then the rest in order"
    assert (hook(lab)["failures"], hook(lab)["trouble"], hook(lab)["waiting"]) == (0, None, 0)


def test_an_event_that_is_not_taken_holds_up_no_other(lab: Lab, receiver: Receiver) -> None:
    """It is tried as often as the budget allows and is then a dead letter; redelivered, it has a new budget."""
    add(lab, receiver)
    bad, *others = report(lab, 10)
    receiver.answer = lambda _, event: 400 if event["id"] == bad else 204
    deliver(lab)
    assert receiver.ids == others
    for _ in range(10):
        lab.advance(hours=1)
        deliver(lab)
    assert len([one for one in receiver.asked if one.headers["webhook-id"] == bad]) == lab.settings.webhook_attempts
    (dead,) = lab.store.reader.webhook_deliveries("hook")
    assert (dead["eventId"], dead["state"], dead["attempts"]) == (bad, "dead", lab.settings.webhook_attempts)
    assert dead["trouble"] == "the receiver answered 400"
    receiver.answer = 204
    deliver(lab)
    assert receiver.ids == others, "nobody asked for it"
    assert lab.store.webhooks.redeliver("hook", bad) == 1
    deliver(lab)
    assert receiver.ids == [*others, bad]
    assert lab.store.reader.webhook_deliveries("hook") == []


def test_many_events_that_are_not_taken_hold_up_no_other(lab: Lab, receiver: Receiver) -> None:
    """More of them in a row than make a receiver look away: it is judged by new events too, so these arrive."""
    add(lab, receiver)
    bad = set(report(lab, 3 * UNREACHABLE_AFTER))
    receiver.answer = lambda _, event: 400 if event["id"] in bad else 204
    good = report(lab, 10)
    for _ in range(100):
        deliver(lab)
        if len(receiver.received) == len(good):
            break
        lab.advance(seconds=30)
    assert receiver.ids == good
    assert hook(lab)["waiting"] + hook(lab)["dead"] == len(bad)


def test_letters_of_a_receiver_that_never_comes_back_are_dead_in_the_end(lab: Lab, receiver: Receiver) -> None:
    """Although only new events are tried meanwhile: what waits grows too old."""
    add(lab, receiver)
    receiver.answer = 503
    for state in ("waiting", "dead"):
        for _ in range(20):
            report(lab, 3)
            deliver(lab)
            lab.advance(hours=1)
        assert {one["state"] for one in lab.store.reader.webhook_deliveries("hook")} == {state}
    assert len(receiver.asked) < 60, "and it was hardly bothered"


def test_the_budget_ends_by_age_too(lab: Lab, receiver: Receiver) -> None:
    """A letter that is too old and fails is dead; one that is old and was never tried is tried."""
    add(lab, receiver)
    receiver.answer = 500
    report(lab, 1)
    lab.advance(days=3)
    deliver(lab)
    assert len(receiver.asked) == 1
    assert [one["state"] for one in lab.store.reader.webhook_deliveries("hook")] == ["dead"]


def test_a_dead_letter_is_forgotten_with_its_time(lab: Lab, receiver: Receiver) -> None:
    """After the retention; and a letter whose event is gone says so instead of being tried for ever."""
    add(lab, receiver)
    receiver.answer = 500
    report(lab, 1)
    deliver(lab)
    lab.rows("DELETE FROM events RETURNING 1")
    lab.advance(hours=1)
    deliver(lab)
    (dead,) = lab.store.reader.webhook_deliveries("hook")
    assert (dead["state"], dead["trouble"]) == ("dead", "the event is not kept any more")
    lab.advance(days=31)
    lab.store.retention.prune(30, 100)
    assert lab.store.reader.webhook_deliveries("hook") == []


def test_a_webhook_that_hangs_delays_no_other(lab: Lab, receiver: Receiver) -> None:
    """Each has its own cursor, and a lane that waits for one is not the only lane."""
    slow = Receiver()
    go_on = threading.Event()
    slow.answer = lambda *_: 204 if go_on.wait(30) else 500
    add(lab, slow, "a-slow-one")
    add(lab, receiver, "quick")
    lanes = [WebhookSender(lab.store) for _ in range(2)]
    made = report(lab, 30)
    for lane in lanes:
        lane.start()
    wait_until(lambda: receiver.ids == made)
    assert slow.received == []
    for lane in lanes:
        lane.stop()
    go_on.set()
    slow.close()


def test_a_paused_webhook_gets_nothing_until_it_is_resumed(lab: Lab, receiver: Receiver) -> None:
    """Then it gets what waited, in order."""
    add(lab, receiver)
    lab.store.webhooks.pause("hook")
    made = report(lab, 3)
    deliver(lab)
    assert receiver.asked == []
    lab.store.webhooks.resume("hook")
    deliver(lab)
    assert receiver.ids == made


def test_a_crash_between_sending_and_recording_repeats_and_loses_nothing(lab: Lab, receiver: Receiver) -> None:
    """At least once: the batch comes again with the same ids when the lease is over."""
    add(lab, receiver)
    made = report(lab, 3)

    def crash() -> None:
        raise FailpointError("planted")

    with failpoints.armed("record_deliveries:before", crash), pytest.raises(FailpointError):
        WebhookSender(lab.store).run_once()
    deliver(lab)
    assert receiver.ids == made, "while the lease lasts nobody else sends"
    made += report(lab, 2)
    lab.advance(seconds=LEASE_MS / 1000 + 1)
    deliver(lab)
    assert receiver.ids == [*made[:3], *made]


def test_a_suspended_sender_changes_nothing(lab: Lab, receiver: Receiver) -> None:
    """Its claim is old: another one has sent and recorded, and the cursor does not go back."""
    add(lab, receiver)
    report(lab, 3)
    stale = lab.store.deliveries.claim(lease_ms=LEASE_MS)
    assert stale is not None
    lab.advance(seconds=LEASE_MS / 1000 + 1)
    deliver(lab)
    before = lab.everything()
    with pytest.raises(FencedError):
        lab.store.deliveries.record(stale, [Outcome(one, "late") for one in stale.letters])
    assert lab.everything() == before


def test_several_deliverers_share_the_work_and_keep_the_order(lab: Lab, receiver: Receiver) -> None:
    """Three lanes, two webhooks, events all the time: every event to both, in order, and none twice."""
    second = Receiver()
    add(lab, receiver, "one")
    add(lab, second, "two")
    lanes = [WebhookSender(lab.store) for _ in range(3)]
    sequencer = EventSequencer(lab.store)
    for service in (*lanes, sequencer):
        service.start()
    reporters = [threading.Thread(target=lambda: [lab.report("a") for _ in range(40)]) for _ in range(2)]
    for thread in reporters:
        thread.start()
    for thread in reporters:
        thread.join()
    wait_until(lambda: (len(receiver.received), len(second.received)) >= (80, 80))
    for service in (*lanes, sequencer):
        service.stop()
    stamped = lab.rows("SELECT id FROM events WHERE type = 'asset.produced' AND position > 0 ORDER BY position")
    assert receiver.ids == second.ids == [str(row["id"]) for row in stamped]
    second.close()


def test_a_materializer_delivers(lab: Lab, receiver: Receiver) -> None:
    """Without anything else: it stamps events and sends them; and it stops although a receiver hangs."""
    add(lab, receiver)
    materializer = Materializer(lab.store, lab.settings)
    materializer.start()
    lab.report("a", "1")
    wait_until(lambda: "workflow.run.queued" in {one.event["type"] for one in receiver.received})
    materializer.stop()
    assert hook(lab)["failures"] == 0


def work(url: str, ready: Any) -> None:
    """Run a process that sends until it is killed."""
    lab = Lab(url, poll_ms=10, webhook_allow_private=LOOPBACK)
    lab.database.clock = None
    ready.set()
    sender = WebhookSender(lab.store)
    while True:
        sender.run_once()


def test_killing_senders_again_and_again_loses_nothing(
    lab: Lab, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 in the middle of it, several times: every event arrives, first occurrences in order."""
    monkeypatch.setattr("freshline.services.webhook_sender.LEASE_MS", 200)
    lab.database.clock = None
    add(lab, receiver)
    context = multiprocessing.get_context("fork")
    made: list[str] = []
    for _ in range(4):
        made += report(lab, 60)
        before = len(receiver.received)
        ready = context.Event()
        process = context.Process(target=work, args=(lab.database.url, ready))
        process.start()
        wait_until(partial(more_than, receiver, before + 20))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    wait_until(lambda: first_seen(deliver_now(lab, receiver)) == made)
    assert len(receiver.ids) >= len(made)


def more_than(receiver: Receiver, number: int) -> bool:
    """Whether so many have arrived."""
    return len(receiver.received) > number


def deliver_now(lab: Lab, receiver: Receiver) -> Sequence[str]:
    """Return the received deliveries after another round."""
    deliver(lab)
    return receiver.ids


def first_seen(ids: Sequence[str]) -> list[str]:
    """Without repetitions: what a receiver that drops known ids sees."""
    return list(dict.fromkeys(ids))


def test_a_batch_is_bounded(lab: Lab, receiver: Receiver) -> None:
    """However much there is, a claim takes so many letters."""
    add(lab, receiver)
    report(lab, BATCH + 10)
    batch = lab.store.deliveries.claim(lease_ms=LEASE_MS)
    assert batch is not None
    assert len(batch.letters) == BATCH
