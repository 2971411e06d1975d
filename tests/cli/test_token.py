"""`freshline token`."""

from __future__ import annotations

import getpass
import hashlib
import socket
from datetime import datetime, timedelta
from typing import Any

import pytest

from freshline.store.store import Store
from tests.cli.conftest import Freshline


def test_a_token_is_shown_once_and_only_its_digest_is_stored(freshline: Freshline, store: Store) -> None:
    """256 random bits on stdout; in the database there is their SHA-256 and no trace of them."""
    secret = freshline("token", "create", "ci", "--scope", "operate").stdout.strip()
    assert len(secret) > 43
    found = store.reader.token(hashlib.sha256(secret.encode()).digest())
    assert found is not None
    assert (found["name"], found["scope"]) == ("ci", "operate")
    with store.database.reading() as connection:
        query = "SELECT t::text AS row FROM api_tokens t UNION ALL SELECT a::text FROM audit a"
        stored = [row["row"] for row in connection.execute(query)]
    assert len(stored) == 2
    assert not any(secret in row for row in stored)
    assert secret not in freshline("token", "list", "--json").output


def test_a_token_ends_by_itself(freshline: Freshline) -> None:
    """It has an end, 90 days from now unless it is said otherwise."""
    for words, days in (((), 90), (("--expires", "2d"), 2)):
        made = freshline.json("token", "create", f"t{days}", *words)
        life = datetime.fromisoformat(made["expiresAt"]) - datetime.fromisoformat(made["createdAt"])
        assert life == timedelta(days=days)
    assert "is not a duration" in freshline("token", "create", "x", "--expires", "soon", code=2).stderr
    assert "it must be longer" in freshline("token", "create", "x", "--expires", "0s", code=2).stderr


def test_a_revoked_token_is_worth_nothing(freshline: Freshline, store: Store) -> None:
    """It is found no more, its name is free again, and the list tells the state of both."""
    secret = freshline.json("token", "create", "ci")["token"]
    assert "already" in freshline("token", "create", "ci", code=1).stderr
    assert "did you mean 'ci'" in freshline("token", "revoke", "cii", code=1).stderr
    freshline("token", "revoke", "ci")
    freshline("token", "revoke", "ci")
    assert store.reader.token(hashlib.sha256(secret.encode()).digest()) is None
    freshline("token", "create", "ci")
    table = freshline("token", "list").stdout
    assert [line.split()[:3] for line in table.splitlines()[1:]] == [
        ["ci", "read", "active"],
        ["ci", "read", "revoked"],
    ]


def test_a_token_may_read_rows_if_it_is_said(freshline: Freshline) -> None:
    """With any scope; `admin` always may."""
    assert "'rows' may read and read rows until" in freshline("token", "create", "rows", "--data").stderr
    assert freshline.json("token", "create", "plain")["data"] is False
    freshline("token", "create", "boss", "--scope", "admin")
    lines = freshline("token", "list").stdout.splitlines()[1:]
    assert [line.split()[:4] for line in lines] == [
        ["boss", "admin", "active", "yes"],
        ["plain", "read", "active", "-"],
        ["rows", "read", "active", "yes"],
    ]


def test_changes_of_tokens_are_in_the_audit(
    freshline: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who made and who revoked it, before and after; who they are is FRESHLINE_ACTOR, else user and host."""
    freshline("token", "create", "ci", "--scope", "admin")
    monkeypatch.setenv("FRESHLINE_ACTOR", "ada")
    freshline("token", "revoke", "ci")
    entries: list[Any] = store.reader.audit()
    revoked, made = entries
    who = f"cli:{getpass.getuser()}@{socket.gethostname()}"
    assert (made["what"], made["who"], made["before"]) == ("create_token", who, None)
    assert revoked["who"] == "cli:ada"
    assert made["after"]["scope"] == "admin"
    assert (revoked["what"], revoked["before"]["revokedAt"]) == ("revoke_token", None)
    assert revoked["after"]["revokedAt"] is not None
