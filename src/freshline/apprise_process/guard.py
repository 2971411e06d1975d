"""Restricts the process that runs Apprise: which hosts it reaches, and that it starts and reads nothing.

Apprise has over a hundred services, and an address chooses one with all its options. An audit hook sees every
connection, file and program of the interpreter and cannot be removed. It is a second barrier behind the list of
refused services, not a sandbox for hostile code.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from freshline.settings import Network
from freshline.webhooks.egress_policy import is_public

PROGRAMS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile", "pty.spawn"}
)
# Certificates, names of hosts and time zones; the C library reads its own files without an event.
SYSTEM = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/share/zoneinfo")
FILES = frozenset({"/dev/null", "/dev/urandom", "/etc/mime.types", "/etc/hosts", "/etc/resolv.conf", os.devnull})
DNS = 53
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class RefusedError(PermissionError):
    """Something that the process may not do. The text has no part of the address of the message."""


class Guard:
    """The audit hook. `secure`: whether the current message is sent encrypted."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        self.secure = False
        self.refused: str | None = None  # the last refusal: services of Apprise hide what an exception said
        paths = sysconfig.get_paths()
        roots = {
            sys.prefix,
            sys.base_prefix,
            sys.exec_prefix,
            *(paths[name] for name in ("stdlib", "purelib", "platlib")),
        }
        roots |= {str(Path(__file__).parents[2]), *SYSTEM}
        self._readable = tuple(f"{os.path.realpath(root)}/" for root in roots) + tuple(f"{root}/" for root in roots)

    def install(self) -> None:
        """Begin to refuse. A hook cannot be removed."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in PROGRAMS:
            self._refuse("the service wanted to start a program on this machine")
        elif event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
            self._check_address(arguments)
        elif event == "open":
            self._check_file(*arguments)

    def _check_address(self, arguments: tuple[Any, ...]) -> None:
        family, address = arguments[0].family, arguments[1]
        if family not in {socket.AF_INET, socket.AF_INET6}:
            self._refuse("the service wanted to connect to something on this machine")
        if not isinstance(address, tuple):
            return  # a connected datagram socket, whose address was checked
        try:
            found = ipaddress.ip_address(str(address[0]).partition("%")[0])
        except ValueError:
            return  # a name: it is resolved, and the event comes again with the address
        mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
        plain = mapped or found
        if any(plain.version == one.version and plain in one for one in self._allowed):
            return
        if not is_public(found):
            self._refuse(f"the address {found} is not public; FRESHLINE_WEBHOOK_ALLOW_PRIVATE names those that may be")
        if not self.secure and address[1] != DNS:
            self._refuse(f"it would be sent to {found} without encryption; use the encrypted form, as in jsons://")

    def _check_file(self, path: Any, mode: Any, flags: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a file that is open already
        name = os.path.realpath(os.fsdecode(path))
        writes = (isinstance(mode, str) and any(one in mode for one in "wax+")) or bool(
            isinstance(flags, int) and flags & WRITING
        )
        if os.fsdecode(path) in FILES or name in FILES:
            return
        if writes or not name.startswith(self._readable):
            self._refuse("the service wanted to open a file on this machine")

    def _refuse(self, text: str) -> None:
        self.refused = text
        raise RefusedError(text)
