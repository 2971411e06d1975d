"""Sends the messages of alerts through Apprise, at least once, in order per address.

It does not promise that a message arrives only once: after a crash between sending and recording it is sent again, with
the same incident id. A message that fails is retried with increasing pauses until its budget ends. A service that
hangs is killed and delays no other service.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from freshline.alerts import message
from freshline.alerts.message import Facts, Text
from freshline.alerts.records import MessageKind
from freshline.apprise_process.process import AppriseProcess, Message, Sent, longest_s
from freshline.definitions.alerts import address
from freshline.errors import FreshlineError
from freshline.model.alerts import AlertTarget
from freshline.services.due_service import DueService
from freshline.store.alerts.messages import BATCH, Letter, Result
from freshline.store.read.reader import Reader
from freshline.store.store import Store

log = structlog.get_logger("freshline.alerts")
Explain = Callable[[Reader, str], str]
SPARE_S = 10.0
TYPES = {MessageKind.ALERT: "failure", MessageKind.CLEAR: "success", MessageKind.SUMMARY: "warning"}


def no_explanation(_: Reader, __: str) -> str:
    """Explain nothing."""
    return ""


class AlertSender(DueService):
    """Sends one batch of messages at a time. `explain` returns the answer of `freshline why` about a name."""

    name = "alert-sender"

    def __init__(self, store: Store, explain: Explain = no_explanation) -> None:
        super().__init__(store)
        self._explain = explain
        self._process: AppriseProcess | None = None

    def run_once(self) -> bool:
        """Send what is due; return whether there was something."""
        left = self.time_left()
        if left is None or left > 0:
            return False
        letters = self.store.alert_messages.claim(lease_ms=self._lease_ms)
        if letters:
            self._send(letters)
        return bool(letters)

    def time_left(self) -> float | None:
        """Return the seconds until a message may be sent; None if none waits."""
        return self.store.alert_messages.time_left()

    @property
    def _lease_ms(self) -> int:
        """A little longer than the longest batch. Only what a sender leaves behind that dies waits for its end."""
        timeout_s = self.store.settings.webhook_timeout_ms / 1000
        return int((longest_s(timeout_s, BATCH) + SPARE_S) * 1000)

    def stop(self) -> None:
        """Stop at once. A message without an answer counts as not sent, and is sent again when its lease ends."""
        self._stopping.set()
        process = self._process
        if process is not None:
            process.interrupt()
        super().stop()

    def _send(self, letters: list[Letter]) -> None:
        by_number = {one.number: one for one in letters}
        titles: dict[int, str] = {}
        messages: list[Message] = []
        for letter in letters:
            try:
                url = resolve(letter.target, os.environ)
            except ValueError as error:
                self._record(Result(letter, trouble=str(error)))
                continue
            text = self._text(letter)
            titles[letter.number] = text.title
            messages.append(Message(letter.number, url, text.title, text.body, TYPES[letter.kind]))
        if not messages:
            return
        settings = self.store.settings
        timeout_s = settings.webhook_timeout_ms / 1000
        self._process = AppriseProcess(allowed=settings.webhook_allow_private, timeout_s=timeout_s)
        if self._stopping.is_set():
            self._process.interrupt()
        for number, sent in self._process.send(messages):
            self._record(Result(by_number[number], titles[number], sent.trouble, sent.final))
        self._process = None

    def _record(self, result: Result) -> None:
        letter = result.letter
        if result.trouble is not None:
            log.warning("alert_failed", rule=letter.frame.rule, to=letter.target.shown, trouble=result.trouble)
        else:
            log.info("alert_sent", rule=letter.frame.rule, to=letter.target.shown, title=result.title)
        if not self.store.alert_messages.record([result]):
            log.warning("alert_lease_lost", rule=letter.frame.rule)

    def _text(self, letter: Letter) -> Text:
        facts = [self._explained(one) if letter.kind is MessageKind.ALERT else one for one in letter.facts]
        return message.write(letter.kind, facts, letter.frame, letter.now)

    def _explained(self, facts: Facts) -> Facts:
        name = message.commands(facts.incident)[0].rpartition(" ")[2]
        try:
            return replace(facts, why=self._explain(self.store.reader, name))
        except FreshlineError as error:
            log.warning("alert_not_explained", name=name, error=error.message)
            return facts


def resolve(target: AlertTarget, environ: Mapping[str, str]) -> str:
    """Return the address of a target. Raise `ValueError` without any part of it."""
    if target.env is None:
        return address(target.url)
    found = environ.get(target.env)
    if not found:
        raise ValueError(f"the variable {target.env} is not set in the environment of the materializer")
    try:
        return address(found.strip())
    except ValueError as error:
        raise ValueError(f"the variable {target.env} does not hold an address: {error}") from None


def try_out(store: Store, name: str, targets: list[AlertTarget]) -> list[tuple[str, Sent]]:
    """Send a test message to addresses from this machine; return each target as it is shown, and the result."""
    text = message.trial(name, store.reader.now())
    found: dict[int, Sent] = {}
    messages = []
    for number, one in enumerate(targets):
        try:
            messages.append(Message(number, resolve(one, os.environ), text.title, text.body))
        except ValueError as error:
            found[number] = Sent(str(error).replace("of the materializer", "of this command"), final=True)
    settings = store.settings
    if messages:
        process = AppriseProcess(allowed=settings.webhook_allow_private, timeout_s=settings.webhook_timeout_ms / 1000)
        found |= dict(process.send(messages))
    return [(one.shown, found.get(number, Sent("it was not tried"))) for number, one in enumerate(targets)]
