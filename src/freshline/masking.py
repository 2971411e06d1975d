"""Hides secret values in texts: as they are, percent-encoded, escaped and in base64."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

MASK = "***"
SHORTEST_SECRET = 4  # replacing every "1" of a log would hide more than it protects
SHORTEST_ENCODED = 8  # bytes; the inner part of a shorter one in base64 is a few characters, and many words have them


class Secrets:
    """Values that no log may show. Output is captured by line, so each line of a secret counts as a secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        lines = {line.strip() for value in values for line in (value, *value.splitlines())}
        forms = {form for line in lines if len(line) >= SHORTEST_SECRET for form in _forms(line)}
        self._texts = sorted(
            (form for form in forms if len(form) >= SHORTEST_SECRET), key=lambda form: (-len(form), form)
        )
        self._bytes = [text.encode("utf-8", "surrogateescape") for text in self._texts]
        self.longest = max((len(data) for data in self._bytes), default=0)

    def hide(self, text: str) -> str:
        """Return `text` with secrets replaced."""
        for secret in self._texts:
            text = text.replace(secret, MASK)
        return text

    def hide_cut(self, text: str) -> str:
        """Replace secrets in a text that was cut: it may end with the beginning of a secret."""
        text = self.hide(text)
        # The longest beginning: the end of one may be the beginning of another.
        cut = max((_overlap(text, secret) for secret in self._texts), default=0)
        return f"{text[:-cut]}{MASK}" if cut else text

    def hide_bytes(self, data: bytes) -> bytes:
        """Replace secrets in bytes that are not decoded yet."""
        for secret in self._bytes:
            data = data.replace(secret, MASK.encode())
        return data


def _overlap(text: str, secret: str) -> int:
    """Return how many characters at the end of `text` are the beginning of `secret`; 0 for too few to hide."""
    lengths = range(len(secret) - 1, SHORTEST_SECRET - 1, -1)
    return next((length for length in lengths if text.endswith(secret[:length])), 0)


def _forms(secret: str) -> Iterator[str]:
    """Yield the texts in which a secret may appear."""
    yield from (secret, unquote(secret), quote(secret, safe=""), quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], repr(secret)[1:-1])
    data = secret.encode("utf-8", "surrogateescape")
    if len(data) >= SHORTEST_ENCODED:
        yield from _encoded(data)


def _encoded(data: bytes) -> Iterator[str]:
    """Yield the characters of base64 that depend on the secret alone, wherever it begins in the encoded text."""
    for before in range(3):
        padded = bytes(before) + data
        first = -(-before * 8 // 6)  # characters that also depend on what precedes
        last = len(padded) * 8 // 6  # the next one also depends on what follows
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(padded).decode()[first:last]
