"""The materializer: one process that runs all services. Any number may share a database; none is a leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from freshline.model.json import Json
from freshline.redis_bus import open_bus
from freshline.services.alert_evaluator import AlertEvaluator
from freshline.services.alert_sender import AlertSender, Explain, no_explanation
from freshline.services.backfiller import Backfiller
from freshline.services.delta_log_writer import DeltaLogWriter
from freshline.services.event_sequencer import EventSequencer
from freshline.services.expiry import Expiry
from freshline.services.heartbeat import Heartbeat
from freshline.services.inbox_consumer import InboxConsumer
from freshline.services.notifier import Notifier
from freshline.services.pruner import Pruner
from freshline.services.reconciler import Reconciler
from freshline.services.rescuer import Rescuer
from freshline.services.service import Service
from freshline.services.sweeper import Sweeper
from freshline.services.vacuum import Vacuum
from freshline.services.watcher import Watcher
from freshline.services.webhook_sender import SENDERS, WebhookSender
from freshline.settings import Settings
from freshline.store.store import Store

if TYPE_CHECKING:
    from freshline.redis_bus.connection import RedisConnection


class Materializer:
    """All services of one process, started and stopped together. `explain`: the answer of `why` for alerts."""

    def __init__(self, store: Store, settings: Settings, explain: Explain = no_explanation) -> None:
        self.settings = settings
        self.store = store
        self.bus = open_bus(settings)
        self.heartbeat = Heartbeat(store, "materializer", info=self._info)
        inbox_consumer, reconciler, expiry = InboxConsumer(store), Reconciler(store), Expiry(store)
        delta_log_writer, self._vacuum = DeltaLogWriter(store), Vacuum(store)
        watcher, backfiller = Watcher(store, holder=self.heartbeat.id), Backfiller(store)
        wakeups = {
            "events": _all(inbox_consumer.wake, delta_log_writer.wake, backfiller.wake),
            "backfills": backfiller.wake,
            "considerations": reconciler.wake,
            "timers": expiry.wake,
            "watches": watcher.refresh,
        }
        self.services: tuple[Service, ...] = (
            self.heartbeat,
            inbox_consumer,
            reconciler,
            expiry,
            backfiller,
            Rescuer(store),
            watcher,
            *_outbound(store, self.bus, wakeups),
            AlertEvaluator(store),
            AlertSender(store, explain),
            Sweeper(store),
            Pruner(store),
            delta_log_writer,
            self._vacuum,
        )
        self._notifier = Notifier(store.database, wakeups, self.bus)

    def start(self) -> None:
        """Start all services; return at once."""
        for service in self.services:
            service.start()
        self._notifier.start()

    def stop(self) -> None:
        """Stop after the current rounds; may be called twice."""
        self._notifier.stop()
        for service in reversed(self.services):
            service.stop()
        if self.bus is not None:
            self.bus.close()

    def _info(self) -> Json:
        bus = {"bus": self.bus.trouble or "ok"} if self.bus else {}
        warehouse = {"warehouse": self._vacuum.trouble} if self._vacuum.trouble else {}
        return {**self.store.evaluation.summary(), **bus, **warehouse}


def _outbound(store: Store, bus: RedisConnection | None, wakeups: dict[str, Callable[[], None]]) -> list[Service]:
    """Create the services that send events out, one thread each, so that a slow receiver delays no other."""
    senders = [WebhookSender(store) for _ in range(SENDERS)]
    wake_senders = _all(*(sender.wake for sender in senders))
    if bus is None:
        return [EventSequencer(store, stamped=wake_senders), *senders]
    # The package redis is an extra.
    from freshline.services.redis_consumer import RedisConsumer  # noqa: PLC0415
    from freshline.services.redis_publisher import RedisPublisher  # noqa: PLC0415

    publisher = RedisPublisher(store, bus)
    sequencer = EventSequencer(store, stamped=_all(wake_senders, publisher.wake))
    # Consumers follow the stream, so events get their positions at once and not at the next poll.
    wakeups["events"] = _all(wakeups["events"], sequencer.wake)
    return [sequencer, publisher, RedisConsumer(store, bus), *senders]


def _all(*wakes: Callable[[], None]) -> Callable[[], None]:
    def wake() -> None:
        for one in wakes:
            one()

    return wake
