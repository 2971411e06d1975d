"""The process that runs Apprise: reads one request from stdin, sends its messages, writes one line per result.

It has no database, no environment and no arguments. It is started for a batch of messages and killed when it takes
too long, so a service that hangs or leaks cannot hurt a materializer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any, TextIO

from freshline.apprise_process.guard import Guard
from freshline.definitions.alerts import LOCAL
from freshline.settings import Network


def main() -> None:
    """Send the messages of one request."""
    answers = _own_stdout()
    request = json.load(sys.stdin)
    sender = Sender([ip_network(one) for one in request["allowed"]], float(request["timeout"]))
    _answer(answers, {})  # from here on the time of the first message counts
    for message in request["messages"]:
        trouble, final = sender.send(message["url"], message["title"], message["body"], message["type"])
        _answer(answers, {"number": message["number"], "trouble": trouble, "final": final})


def _answer(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class Sender:
    """Apprise, restricted by a guard from now on."""

    def __init__(self, allowed: list[Network], timeout_s: float) -> None:
        import apprise  # noqa: PLC0415 - an extra, and slow to import
        from apprise.manager_plugins import NotificationManager  # noqa: PLC0415

        self._timeout_s = timeout_s
        self._trouble = _Trouble()
        logging.getLogger("apprise").addHandler(self._trouble)
        logging.getLogger("apprise").propagate = False
        manager: Any = NotificationManager  # without types
        manager().load_modules()  # later imports would be reads of files
        self._apprise: Any = apprise
        self._asset: Any = apprise.AppriseAsset(
            app_id="Freshline", app_desc="Freshline", app_url="", storage_mode=apprise.PersistentStoreMode.MEMORY
        )
        self._asset.http_redirects = self._asset.async_mode = False
        _follow_no_redirects()
        self._guard = Guard(allowed)
        self._guard.install()

    def send(self, url: str, title: str, body: str, type_: str) -> tuple[str | None, bool]:
        """Send one message; return what went wrong, and whether trying again is useless."""
        scheme = url.partition("://")[0].lower()
        if scheme in LOCAL:
            return f"{scheme}:// acts on this machine and is not allowed", True
        self._trouble.last = self._guard.refused = None
        service = self._apprise.Apprise.instantiate(url, asset=self._asset, suppress_exceptions=True)
        if service is None:
            return self._guard.refused or f"Apprise does not understand the {scheme}:// address", True
        service.redirects = False
        service.socket_connect_timeout = service.socket_read_timeout = self._timeout_s
        plain = service.protocol if isinstance(service.protocol, tuple | list | set) else (service.protocol,)
        self._guard.secure = bool(service.secure) or scheme not in plain
        sender = self._apprise.Apprise(asset=self._asset)
        sender.add(service)
        try:
            sent = sender.notify(title=title, body=body, notify_type=type_, body_format="text")
        except Exception as error:  # noqa: BLE001 - services raise anything
            return self._guard.refused or f"the service raised {type(error).__name__}", False
        return (None if sent else self._guard.refused or self._trouble.last or "the service did not accept it"), False


class _Trouble(logging.Handler):
    """Keeps how a service failed. Only texts of Apprise with a known form are kept: others may quote a secret."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the kind of an error, or the status of an answer."""
        text = record.getMessage()
        if "error=" in text and text.rpartition("error=")[2].strip(" .)").isdigit():
            self.last = f"the service answered {text.rpartition('error=')[2].strip(' .)')}"
        elif "onnection" in text and self.last is None:
            self.last = "the service cannot be reached, or it refused to sign in"


def _follow_no_redirects() -> None:
    """Make redirects the answer of every service, also of those that ignore the option of Apprise."""

    def none(*_: Any, **__: Any) -> Iterator[Any]:
        return iter(())

    sys.modules["requests"].Session.resolve_redirects = none  # Apprise has imported it


def _own_stdout() -> TextIO:
    """Return stdout, and let everything that a service prints go nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return answers


if __name__ == "__main__":
    main()
