"""The texts of partition keys: what is allowed, several dimensions in one text, and keys in paths.

A key is not empty, in Unicode's normal form C, at most 200 bytes of UTF-8, and without control characters. The key of
an asset with several dimensions is its values joined by `|`; such values contain no `|` themselves. The key of an
asset without partitions is the empty text. It is never parsed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

from freshline.errors import PartitionKeyError

UNPARTITIONED = ""
SEPARATOR = "|"
MOST_BYTES = 200
MOST_BYTES_IN_PATH = 255  # the longest name of a file on common file systems

_MOST_SHOWN = 80
_REFUSED = {"Cc", "Cs", "Zl", "Zp"}  # control characters, halves of surrogate pairs, separators of lines and paragraphs
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they reorder the text around a key
_PLAIN = re.compile(r"[A-Za-z0-9-][A-Za-z0-9._-]*")  # most keys: nothing to encode in a path
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def canonical(text: str) -> str:
    """Return the key in its stored form: Unicode's normal form C. Raise `PartitionKeyError` if it breaks a rule."""
    key = text if text.isascii() else unicodedata.normalize("NFC", text)
    require_valid(key)
    return key


def require_valid(key: str) -> None:
    """Raise `PartitionKeyError` if the text breaks a rule of keys."""
    if problem := _problem(key):
        raise PartitionKeyError(f"partition key {shown(key)} {problem}, such as 2024-01-31 or eu-west")


def require_value(value: str) -> None:
    """Raise `PartitionKeyError` if the text cannot be the value of one of several dimensions."""
    require_valid(value)
    if SEPARATOR in value:
        raise PartitionKeyError(
            f"value {shown(value)} of a dimension contains '{SEPARATOR}', which separates the values of a key;"
            " allowed are texts without it, such as 2024-01-31 or eu-west"
        )


def join(values: Sequence[str]) -> str:
    """Return the key of several dimensions. Raise `PartitionKeyError` if a value or the key breaks a rule."""
    for value in values:
        require_value(value)
    key = SEPARATOR.join(values)
    require_valid(key)
    return key


def split(key: str) -> tuple[str, ...]:
    """Return the values of a key of several dimensions. The inverse of `join`."""
    return tuple(key.split(SEPARATOR))


def encode_for_path(key: str) -> str:
    """Return the key as one name in a path.

    ASCII letters, digits and `-`, `.`, `_` stay as they are; all else is percent-encoded, including a leading `.` or
    `_`: such names are hidden from Spark, and `.` and `..` are directories. Different keys have different names.
    Raise `PartitionKeyError` if the name is too long for a file system.
    """
    if _PLAIN.fullmatch(key):
        return key
    require_valid(key)
    encoded = quote(key, safe="").replace("~", "%7E")  # quote() keeps `-`, `.`, `_` and `~`
    if encoded[0] in "._":
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    if len(encoded) > MOST_BYTES_IN_PATH:
        raise PartitionKeyError(
            f"partition key {shown(key)} has {len(encoded)} bytes in a path, where each byte that is not a letter or"
            f" digit of ASCII takes three; allowed are {MOST_BYTES_IN_PATH}",
            hint="choose a shorter key, or report the partition with a path of its own",
        )
    return encoded


def decode_from_path(name: str) -> str:
    """Return the key of a name in a path. The inverse of `encode_for_path`; other writers may encode more or less."""
    if "/" in name or _ESCAPE.search(name):
        raise PartitionKeyError(
            f"{shown(name)} is not a percent-encoded partition key; allowed are names such as 2024-01-31T05%3A07"
        )
    try:
        return canonical(unquote_to_bytes(name).decode("utf-8"))
    except UnicodeError:  # also a name of this machine that is not UTF-8 itself
        raise PartitionKeyError(f"{shown(name)} is not percent-encoded UTF-8, so it is not a partition key") from None


def shown(text: str) -> str:
    """Return the text as errors show it: quoted, escaped and cut."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return f"'{cut}'" if cut.isprintable() and "'" not in cut else ascii(cut)


def _problem(key: str) -> str | None:
    """Return the end of a sentence that says which rule the key breaks, and what is allowed."""
    if not key:
        return f"is empty; allowed are texts of 1 to {MOST_BYTES} bytes"
    size = len(key) if key.isascii() else len(key.encode("utf-8", "replace"))
    if size > MOST_BYTES:
        return f"has {size:,} bytes in UTF-8; allowed are texts of 1 to {MOST_BYTES} bytes"
    if key.isascii() and key.isprintable():
        return None
    if wrong := next((char for char in key if unicodedata.category(char) in _REFUSED or char in _DIRECTIONS), None):
        return f"contains the control character U+{ord(wrong):04X}; allowed are printable texts"
    if not unicodedata.is_normalized("NFC", key):
        return "is not in Unicode's normal form C; allowed are composed characters"
    return None
