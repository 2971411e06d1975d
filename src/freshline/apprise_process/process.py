"""Starts the process that runs Apprise, hands it a batch of messages, and kills it when it takes too long."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from freshline.errors import UsageError
from freshline.model.json import Json
from freshline.settings import Network

START_S = 20.0  # to import Apprise on a busy machine
REQUESTS = 3  # that a service may need for one message
# What Python needs to find its packages, and TLS its certificates.
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR")
MISSING = "alerts need the package apprise; install it where the materializer runs: pip install 'freshline[alerts]'"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to one address. `type`: failure, success, warning or info."""

    number: int
    url: str = field(repr=False)
    title: str
    body: str
    type: str = "info"


@dataclass(frozen=True, slots=True)
class Sent:
    """How a message went. A `final` failure would fail again."""

    trouble: str | None = None
    final: bool = False


class AppriseProcess:
    """Sends batches. Another thread may interrupt it: then messages without an answer have no result."""

    def __init__(self, *, allowed: Sequence[Network], timeout_s: float) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._interrupted = False

    def send(self, messages: Sequence[Message]) -> Iterator[tuple[int, Sent]]:
        """Send messages in order; yield the number and the result of each as soon as it is known.

        A message that takes too long, or ends the process, fails. The others are sent by another process.
        """
        waiting = {one.number: one for one in messages}
        if importlib.util.find_spec("apprise") is None:
            yield from ((number, Sent(MISSING)) for number in waiting)
            return
        while waiting and not self._interrupted:
            for number, sent in self._batch(list(waiting.values())):
                del waiting[number]
                yield number, sent
            if waiting and not self._interrupted:
                number = next(iter(waiting))
                del waiting[number]
                yield number, Sent(f"the service did not end within {self._longest_s:g} s, or it ended its process")

    def interrupt(self) -> None:
        """Kill the process, and start none again."""
        with self._lock:
            self._interrupted = True
            if self._child is not None:
                self._child.kill()

    @property
    def _longest_s(self) -> float:
        """The longest time of one message: a service may need several requests."""
        return REQUESTS * self._timeout_s

    def _batch(self, messages: Sequence[Message]) -> Iterator[tuple[int, Sent]]:
        """Yield the answers of one process, until it has sent everything, dies, or is killed."""
        child = self._start()
        if child is None or child.stdin is None or child.stdout is None:
            return
        killer = _Killer(child)
        killer.set(START_S)
        try:
            child.stdin.write(json.dumps(self._request(messages)))
            child.stdin.close()
            for line in child.stdout:
                killer.set(self._longest_s)
                if answer := json.loads(line):  # the first one is empty: it is ready
                    yield answer["number"], Sent(answer["trouble"], answer["final"])
        except (OSError, ValueError):
            return  # it was killed or has crashed: what it did not answer has no result
        finally:
            killer.cancel()
            child.kill()
            child.wait()
            child.stdout.close()
            with self._lock:
                self._child = None

    def _start(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._interrupted:
                return None
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "freshline.apprise_process.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={name: os.environ[name] for name in KEPT if name in os.environ},
                start_new_session=True,  # Ctrl-C reaches the materializer, which decides
            )
            return self._child

    def _request(self, messages: Sequence[Message]) -> Json:
        return {
            "timeout": self._timeout_s,
            "allowed": [str(one) for one in self._allowed],
            "messages": [
                {"number": one.number, "url": one.url, "title": one.title, "body": one.body, "type": one.type}
                for one in messages
            ],
        }


def longest_s(timeout_s: float, messages: int) -> float:
    """Return the longest time of a batch whose last message hangs."""
    return START_S + REQUESTS * timeout_s * messages


class _Killer:
    """Kills a process unless the time is set anew."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self._timer: threading.Timer | None = None

    def set(self, seconds: float) -> None:
        self.cancel()
        self._timer = threading.Timer(seconds, self._child.kill)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def require_apprise() -> None:
    """Raise an error that says how to install Apprise, if it is missing."""
    if importlib.util.find_spec("apprise") is None:
        raise UsageError(MISSING)
