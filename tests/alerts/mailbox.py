"""A real SMTP server on its own port that keeps what it receives."""

from __future__ import annotations

import socket
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller


class Mailbox:
    """`mails` has everything that was accepted; `answer` is the reply to the end of a mail."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 OK"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self._controller.start()
        self.url = f"mailto://localhost:{self.port}?from=freshline@shop.example&to=ops@shop.example"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Keep a mail, if it is accepted."""
        if self.answer.startswith("250"):
            self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return self.answer

    @property
    def subjects(self) -> list[str]:
        """The subjects of all mails."""
        return [str(mail["subject"]) for mail in self.mails]

    def text(self, number: int = -1) -> str:
        """Return the plain text of a mail."""
        body = self.mails[number].get_body(("plain",))
        assert body is not None
        return str(body.get_content())

    def close(self) -> None:
        """Nobody listens any more."""
        self._controller.stop()
