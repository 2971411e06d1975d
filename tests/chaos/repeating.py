"""A thread that repeats an action at random intervals until it is stopped, and passes its failure on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable


class Repeating:
    """Repeats `act` after pauses of `pause_s`. `gate` is held during each call; others hold it to delay the next."""

    def __init__(self, name: str, act: Callable[[], None], rng: random.Random, pause_s: tuple[float, float]) -> None:
        self._act = act
        self._rng = rng
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self.failure: BaseException | None = None
        self.gate = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Begin no further call, and do not wait for the last one."""
        self._stopping.set()

    def join(self) -> None:
        """End, and wait for the last call."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()

    def stop(self) -> None:
        """End, wait for the last call, and raise what a call has raised."""
        self.join()
        if self.failure is not None:
            raise self.failure

    def _loop(self) -> None:
        try:
            while not self._stopping.wait(self._rng.uniform(*self._pause_s)):
                with self.gate:
                    self._act()
        except BaseException as error:  # noqa: BLE001 - another thread raises or reports it
            self.failure = error
