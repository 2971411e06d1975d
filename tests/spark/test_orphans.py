"""Sessions on a Connect server that nobody owns any more."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.spark import connect
from freshline.spark.connect import Remote


class Session:
    """One on a server that may have closed it."""

    def __init__(self, name: str, ended: list[str]) -> None:
        self.name = name
        self.ended = ended

    def interruptAll(self) -> None:  # noqa: N802 - the name that Spark has for it
        if self.name == "closed":
            raise RuntimeError("SESSION_CLOSED")

    def stop(self) -> None:
        self.ended.append(self.name)


def test_a_session_that_is_gone_does_not_keep_others_from_being_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is ended for itself (docs/semantics.md#R12.1)."""
    ended: list[str] = []

    def opened(_remote: Remote, name: str | None = None) -> Any:
        return Session(str(name), ended)

    monkeypatch.setattr(Remote, "open", opened)
    monkeypatch.setattr(connect, "limit_retries", lambda *_: None)
    Remote.of("sc://host").end(["one", "closed", "two"])
    assert ended == ["one", "two"]
