"""The egress policy of webhooks and watchers: a name is resolved once, and only checked addresses are used.

Private, loopback, link-local, multicast and reserved addresses need permission, however they are written. Otherwise a
user who may add a webhook or a watch could reach hosts that only this server can reach (SSRF).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from freshline.errors import UsageError
from freshline.settings import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
FORM = "https://host[:port][/path][?query]"
MAX_URL_CHARS = 2_000
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
PORTS = {"https": 443, "http": 80}


class Purpose(NamedTuple):
    """What a URL is for, as errors say it."""

    address: str
    users: str


WEBHOOKS = Purpose("the address of a webhook", "webhooks")
WATCHERS = Purpose("the URL of the watch", "watchers")


class AddressError(UsageError):
    """A URL that may not be requested."""


@dataclass(frozen=True, slots=True)
class Target:
    """A checked URL. `addresses`: all addresses of its name at that moment."""

    host: str
    port: int
    path: str
    secure: bool
    addresses: tuple[str, ...]


def check_url(url: str, allowed: Sequence[Network], purpose: Purpose = WEBHOOKS) -> None:
    """Raise `AddressError` for a URL that can never be allowed, without using the network.

    The error contains no part of the query, which may hold a secret.
    """
    parts = _parts(url, purpose)
    literal = _literal(parts.hostname or "")
    if literal is not None:
        _check(literal, parts.scheme, allowed, purpose)
    elif parts.scheme == "http" and not allowed:
        raise AddressError(f"{purpose.address} begins with http://; allowed is {FORM}", hint=_HINT)


def resolve(url: str, allowed: Sequence[Network], purpose: Purpose = WEBHOOKS) -> Target:
    """Resolve a URL; raise `AddressError` unless all addresses of its name are allowed."""
    parts = _parts(url, purpose)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressError(f"the name {host} does not resolve") from None
    addresses = tuple(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        _check(ipaddress.ip_address(address), parts.scheme, allowed, purpose)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(host, port, path, parts.scheme == "https", addresses)


def is_public(address: Address) -> bool:
    """Return whether an address is public. An IPv6 address that embeds an IPv4 address counts as that one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


_HINT = "FRESHLINE_WEBHOOK_ALLOW_PRIVATE names the private networks that webhooks and watchers may go to"


def _check(address: Address, scheme: str, allowed: Sequence[Network], purpose: Purpose) -> None:
    plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else address
    if is_public(address):
        if scheme == "http":
            raise AddressError(f"{purpose.users} go to {address} by https:// only")
    elif not any(plain.version == one.version and plain in one for one in allowed):
        raise AddressError(f"the address {address} is not public, and {purpose.users} may not go there", hint=_HINT)


def _parts(url: str, purpose: Purpose) -> SplitResult:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in PORTS and bool(parts.hostname) and not parts.fragment and "@" not in parts.netloc
        valid = valid and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url or len(url) > MAX_URL_CHARS:
        raise AddressError(f"{purpose.address} has another form; allowed is {FORM}, without a user or a password")
    return parts


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
