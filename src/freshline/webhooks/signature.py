"""Signatures of webhooks, in the manner of the Standard Webhooks specification: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from freshline.errors import UsageError

PREFIX = "whsec_"
BYTES = 32
SHORTEST, LONGEST = 24, 64
LONGEST_KEY = 1_000
ALLOWED = f"{PREFIX} and the Base64 of {SHORTEST} to {LONGEST} random bytes"


def new_secret() -> str:
    """A secret in the form in which receivers want it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(BYTES)).decode()


def read_secret(text: str) -> bytes:
    """The bytes to sign with. What is wrong is told without any part of it."""
    try:
        found = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not text.startswith(PREFIX) or not SHORTEST <= len(found) <= LONGEST:
        raise UsageError(f"the secret of a webhook has another form; allowed is {ALLOWED}")
    return found


def read_key(text: str) -> bytes:
    """The API key of a receiver that takes no signatures; it becomes a header, so it must fit into one."""
    if not text.isascii() or not text.isprintable() or len(text) > LONGEST_KEY:
        raise UsageError(f"the API key has another form; allowed are up to {LONGEST_KEY} printable ASCII characters")
    return text.encode()


def headers(secret: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """What a receiver needs to know that the body is ours, was not changed and is not old."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature of version 1."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
