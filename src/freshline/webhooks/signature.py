"""Signatures of webhooks as in the Standard Webhooks specification: HMAC-SHA256 over id, time and body."""

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
    """Return a new secret in the form of the specification."""
    return PREFIX + base64.b64encode(secrets.token_bytes(BYTES)).decode()


def read_secret(text: str) -> bytes:
    """Return the bytes of a secret. An error contains no part of it."""
    try:
        found = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not text.startswith(PREFIX) or not SHORTEST <= len(found) <= LONGEST:
        raise UsageError(f"the secret of a webhook has another form; allowed is {ALLOWED}")
    return found


def read_key(text: str) -> bytes:
    """Return an API key, for a receiver without signatures, as the bytes of a header value."""
    if not text.isascii() or not text.isprintable() or len(text) > LONGEST_KEY:
        raise UsageError(f"the API key has another form; allowed are up to {LONGEST_KEY} printable ASCII characters")
    return text.encode()


def headers(secret: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver verifies the sender, the body and the time."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return a signature of version 1."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
