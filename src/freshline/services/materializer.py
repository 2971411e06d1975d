"""One process that runs all services. Any number of them may run against one database; none is a leader."""

from __future__ import annotations

from freshline.services.absorber import Absorber
from freshline.services.doorbell import Doorbell
from freshline.services.expiry import Expiry
from freshline.services.presence import Presence
from freshline.services.pruner import Pruner
from freshline.services.reconciler import Reconciler
from freshline.services.relay import Relay
from freshline.services.rescuer import Rescuer
from freshline.services.sweeper import Sweeper
from freshline.settings import Settings
from freshline.store.facade import Store


class Materializer:
    """Starts and stops the services together."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.settings = settings
        absorber, reconciler, expiry = Absorber(store), Reconciler(store), Expiry(store)
        self.services = (
            Presence(store, "materializer"),
            absorber,
            reconciler,
            expiry,
            Rescuer(store),
            Relay(store),
            Sweeper(store),
            Pruner(store),
        )
        bells = {"events": absorber.ring, "considerations": reconciler.ring, "timers": expiry.ring}
        self._doorbell = Doorbell(store.database, bells)

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
