"""Freshline's own credentials: the variables that may contain them, and the values that no log may show."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from freshline.settings import Settings

ADDRESSES = ("FRESHLINE_DATABASE_URL", "FRESHLINE_EVENT_BUS", "FRESHLINE_SPARK_REMOTE")
TOKENS = ("FRESHLINE_API_TOKEN", "FRESHLINE_SPARK_TOKEN", "PGPASSWORD", "SPARK_CONNECT_AUTHENTICATE_TOKEN")
# Runners do not get them. A job that needs one of these has to name it in `secrets`.
HIDDEN = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "SPARK_REMOTE", "SPARK_CONNECT_AUTHENTICATE_TOKEN"})
STORE_SECRET = re.compile(r"(?:AWS|AZURE|GOOGLE)_\w*(?:KEY|SECRET|TOKEN|PASSWORD|CONNECTION_STRING)")
TOKEN_PREFIX = "freshline_"  # noqa: S105 - the beginning of each
TOKEN_BYTES = 32
_KEYWORD = re.compile(r"\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&;]+)", re.IGNORECASE)
_TOKEN = re.compile(r";token=([^;]+)")


def new_token() -> tuple[str, bytes]:
    """Return a new token of the API, and its digest, which is all that the store keeps."""
    secret = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    return secret, hashlib.sha256(secret.encode()).digest()


def own_credentials(environ: Mapping[str, str], settings: Settings | None = None) -> frozenset[str]:
    """Return the values of Freshline's credentials: passwords, tokens, and addresses that contain one."""
    known = dict(environ)
    if settings is not None:
        given = {
            "FRESHLINE_DATABASE_URL": settings.database_url,
            "FRESHLINE_EVENT_BUS": settings.event_bus,
            "FRESHLINE_SPARK_REMOTE": settings.spark_remote,
            "FRESHLINE_SPARK_TOKEN": settings.spark_token,
            "FRESHLINE_API_TOKEN": settings.api_token,
        }
        known |= {name: value for name, value in given.items() if value}
    tokens = {known[name].strip() for name in TOKENS if name in known}
    stores = {value for name, value in known.items() if STORE_SECRET.fullmatch(name)}
    inside = {part for name in (*ADDRESSES, "SPARK_REMOTE") for part in _inside(known.get(name, ""))}
    return frozenset(filter(None, tokens | stores | inside))


def _inside(address: str) -> Iterator[str]:
    """Yield an address that contains a password or a token, and the password itself."""
    passwords = set(_passwords(address))
    if not passwords:
        return
    yield address
    for password in passwords:
        # Hiding a password that is also the name of the user or of the database would hide half of every log.
        if password not in _names(address):
            yield password
        else:
            yield f":{password}@"


def _passwords(address: str) -> Iterator[str]:
    for found in (*_KEYWORD.findall(address), *_TOKEN.findall(address)):
        yield from (found.strip("'"), unquote(found))
    try:
        parts = urlsplit(address)
        options = parse_qsl(parts.query)
        if parts.password:
            yield from (parts.password, unquote(parts.password))
    except ValueError:
        return
    yield from (value for name, value in options if "password" in name and value)


def _names(address: str) -> set[str]:
    try:
        parts = urlsplit(address)
        return {parts.username or "", parts.hostname or "", parts.path.strip("/")}
    except ValueError:
        return set()
