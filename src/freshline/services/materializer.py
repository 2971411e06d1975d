"""One process that runs all services. Any number of them may run against one database; none is a leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from freshline.redis_bus.opening import open_bus
from freshline.services.delta_log_writer import Scribe
from freshline.services.event_sequencer import Relay
from freshline.services.expiry import Expiry
from freshline.services.heartbeat import Presence
from freshline.services.inbox_consumer import Absorber
from freshline.services.notifier import Doorbell
from freshline.services.pruner import Pruner
from freshline.services.reconciler import Reconciler
from freshline.services.rescuer import Rescuer
from freshline.services.service import Service
from freshline.services.sweeper import Sweeper
from freshline.services.vacuum import Vacuum
from freshline.services.webhook_sender import LANES, Deliverer
from freshline.settings import Settings
from freshline.store.store import Store

if TYPE_CHECKING:
    from freshline.redis_bus.connection import Bus


class Materializer:
    """Starts and stops the services together."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings = settings
        self.store = store
        self.bus = open_bus(settings)
        self.presence = Presence(store, "materializer", info=self._info)
        absorber, reconciler, expiry, scribe = Absorber(store), Reconciler(store), Expiry(store), Scribe(store)
        bells = {
            "events": _all(absorber.ring, scribe.ring),
            "considerations": reconciler.ring,
            "timers": expiry.ring,
        }
        self.services: tuple[Service, ...] = (
            self.presence,
            absorber,
            reconciler,
            expiry,
            Rescuer(store),
            *_outward(store, self.bus, bells),
            Sweeper(store),
            Pruner(store),
            scribe,
            Vacuum(store),
        )
        self._doorbell = Doorbell(store.database, bells, self.bus)

    def start(self) -> None:
        """Begin; returns at once."""
        for service in self.services:
            service.start()
        self._doorbell.start()

    def stop(self) -> None:
        """End after the rounds that are under way; may be called twice."""
        self._doorbell.stop()
        for service in reversed(self.services):
            service.stop()
        if self.bus is not None:
            self.bus.close()

    def _info(self) -> dict[str, Any]:
        return {**self.store.outline(), **({"bus": self.bus.trouble or "ok"} if self.bus else {})}


def _outward(store: Store, bus: Bus | None, bells: dict[str, Callable[[], None]]) -> list[Service]:
    """The services that tell others. Each has a thread of its own: what waits for others holds up nobody."""
    lanes = [Deliverer(store) for _ in range(LANES)]
    tell = _all(*(lane.ring for lane in lanes))
    if bus is None:
        return [Relay(store, stamped=tell), *lanes]
    from freshline.services.redis_consumer import Intake  # noqa: PLC0415 - they need the package redis, an extra
    from freshline.services.redis_publisher import Publisher  # noqa: PLC0415

    publisher = Publisher(store, bus)
    relay = Relay(store, stamped=_all(tell, publisher.ring))
    # Others follow the stream, so events are stamped at once and not at the next poll.
    bells["events"] = _all(bells["events"], relay.ring)
    return [relay, publisher, Intake(store, bus), *lanes]


def _all(*rings: Callable[[], None]) -> Callable[[], None]:
    def ring() -> None:
        for one in rings:
            one()

    return ring
