"""The work of every asset, the same for all systems: nothing, except that `slow` sleeps and writes its times.

It does not depend on the system that calls it.
"""

import os
import time
from pathlib import Path

SLOW = "slow"


def work(name: str) -> None:
    """Make one asset."""
    if name == SLOW:
        _note("begin")
        time.sleep(float(os.environ["PEERS_SLOW_SECONDS"]))
        _note("end")


def _note(word: str) -> None:
    with Path(os.environ["PEERS_LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{word} {time.time():.6f} {os.getpid()}\n")
