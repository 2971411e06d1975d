"""Messages of outside producers on `freshline:events:in`, which report that a source asset changed.

Fields, all text: `assetId`; optional `dataVersion`, `key` (or `id`), `sequence` (a whole number), `payload` (JSON).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from freshline.errors import UsageError
from freshline.suggest import did_you_mean

FIELDS = ("assetId", "dataVersion", "key", "id", "sequence", "payload")
MAX_BYTES = 300_000
MAX_CHARS = 500
MAX_SEQUENCE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Message:
    """A report of an outside producer, with the key that makes a repetition harmless."""

    asset_id: str
    version: str | None
    key: str
    sequence: int | None
    payload: Any


def read(stream_id: str, fields: Mapping[bytes, bytes]) -> Message:
    """Parse a message; raise `UsageError` if it is not valid.

    The key of a message without one is its stream id and a digest of its content: a server that was emptied, or whose
    clock was set back, may assign an old id to a new message.
    """
    size = sum(len(name) + len(value) for name, value in fields.items())
    if size > MAX_BYTES:
        raise UsageError(f"the message has {size} bytes; allowed are {MAX_BYTES}; put the data into a file")
    texts = _texts(fields)
    asset_id = _text(texts, "assetId")
    if asset_id is None:
        raise UsageError("the message has no assetId; it says which source asset changed")
    return Message(
        asset_id=asset_id,
        version=_text(texts, "dataVersion"),
        key=_text(texts, "key") or _text(texts, "id") or f"{stream_id}/{_digest(fields)}",
        sequence=_sequence(texts.get("sequence")),
        payload=_payload(texts.get("payload")),
    )


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    try:
        texts = {name.decode(): value.decode() for name, value in fields.items()}
    except UnicodeDecodeError:
        raise UsageError("the message is not UTF-8; fields and values are text") from None
    for name in texts:
        if name not in FIELDS:
            near = did_you_mean(name[:MAX_CHARS], FIELDS)
            hint = f"; {near}" if near else ""
            raise UsageError(f"the message has a field {name[:60]!r}; allowed are {', '.join(FIELDS)}{hint}")
    return texts


def _text(texts: Mapping[str, str], name: str) -> str | None:
    text = texts.get(name)
    if not text:
        return None
    if len(text) > MAX_CHARS:
        raise UsageError(f"{name} has {len(text)} characters; allowed are {MAX_CHARS}")
    if "\0" in text:
        raise UsageError(f"{name} contains a null character; PostgreSQL takes none")
    return text


def _sequence(text: str | None) -> int | None:
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_SEQUENCE))):
        raise UsageError(f"sequence is {text[:60]!r}; allowed are whole numbers")
    if abs(int(text)) > MAX_SEQUENCE:
        raise UsageError(f"sequence is {text}; allowed are numbers up to {MAX_SEQUENCE}")
    return int(text)


def _payload(text: str | None) -> Any:
    if not text:
        return None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"payload is not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _digest(fields: Mapping[bytes, bytes]) -> str:
    return hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:16]
