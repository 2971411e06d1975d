"""A hostile job: it searches everything that it can reach for credentials, and counts its tries.

A test copies this file into a project. Credentials of the test begin with a marker that the job knows; the rest is
random, so that the job itself never contains one.
"""

from __future__ import annotations

import gc
import json
import os
import re
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

KEPT: list[str] = []  # what another workflow's job leaves behind
MAX_FILE = 5_000_000
CHUNK = 8_000_000
RANDOM = 16  # hexadecimal digits that follow the marker


class Search:
    """Looks for credentials in texts and bytes, and remembers where it found one."""

    def __init__(self, marker: str) -> None:
        forms = [marker, *(b64encode(bytes(n) + marker.encode()).decode()[n + 1 : -4] for n in range(3))]
        plain = rf"{re.escape(forms[0])}[0-9a-f]{{{RANDOM}}}"
        self._pattern = re.compile(
            "|".join([plain, *(rf"{re.escape(one)}[\w+/-]{{16,}}" for one in forms[1:])]).encode()
        )
        self.tries: dict[str, int] = {}
        self.found: list[str] = []

    def look(self, way: str, where: str, data: bytes | str) -> None:
        """Count a try, and record what it found."""
        self.tries[way] = self.tries.get(way, 0) + 1
        if self._pattern.search(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data):
            self.found.append(f"{way}: {where}")

    def attempt(self, way: str, where: str, read: Callable[[], bytes | str]) -> None:
        """Count a try that may be refused."""
        try:
            data = read()
        except (OSError, ValueError, urllib.error.URLError) as error:
            data = str(error)
        self.look(way, where, data)


def hold(_ctx: Any) -> dict[str, Any]:
    """Keep the secret of this workflow, as careless code does."""
    KEPT.append(os.environ["OTHER_SECRET"])
    print("the other workflow has", KEPT)
    return {"assets": [{"assetId": "other", "dataVersion": "1"}]}


def attack(ctx: Any) -> dict[str, Any]:
    """Search everywhere; write the findings into a file of the project."""
    search = Search(str(ctx.parameters["marker"]))
    for way in (_own_process, _own_objects, _own_memory, _processes, _files):
        way(search)
    for port in ctx.parameters["ports"]:
        search.attempt("ports", str(port), partial(_greet, port))
    for path in ctx.parameters["paths"]:
        url = f"{ctx.parameters['api']}{path}"
        search.attempt("api", path, partial(_fetch, url))
    print("environment:", dict(os.environ))
    Path("findings.json").write_text(json.dumps({"tries": search.tries, "found": search.found, "uid": os.getuid()}))
    return {"assets": [{"assetId": "attack", "dataVersion": "1", "payload": {"environment": dict(os.environ)}}]}


def _own_process(search: Search) -> None:
    for name, value in {**os.environ, "argv": str(sys.argv), "orig_argv": str(sys.orig_argv)}.items():
        search.look("environment", name, f"{name}={value}")
    for pid in ("self", str(os.getppid())):
        for file in ("environ", "cmdline", "maps", "status", "stat", "mountinfo", "auxv", "stack"):
            search.attempt("own process", f"{pid}/{file}", Path(f"/proc/{pid}/{file}").read_bytes)


def _own_objects(search: Search) -> None:
    """Search the objects of the interpreter: containers, modules, and the variables of all threads."""
    for one in gc.get_objects():
        if isinstance(one, dict):
            for value in [*one.keys(), *one.values()]:
                _look_at(search, value)
        elif isinstance(one, (list, tuple, set, frozenset)):
            for value in one:
                _look_at(search, value)
    for frame in sys._current_frames().values():
        inner = frame
        while inner is not None:
            for value in list(inner.f_locals.values()):
                _look_at(search, value)
            inner = inner.f_back  # type: ignore[assignment]
    search.look("objects", "left behind", str(KEPT))


def _look_at(search: Search, value: object) -> None:
    if isinstance(value, (str, bytes)) and len(value) >= RANDOM:
        search.look("objects", "an object", value)


def _own_memory(search: Search) -> None:
    search.attempt("own memory", "self", partial(_memory, "self", search))


def _memory(pid: str, search: Search) -> bytes:
    """Search the readable memory of a process; raise what the kernel says if it refuses."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps.splitlines():
            span, mode, *_ = line.split()
            if mode.startswith("rw") and "[vvar" not in line:
                begin, end = (int(part, 16) for part in span.split("-"))
                for at in range(begin, end, CHUNK):
                    memory.seek(at)
                    search.attempt("memory", f"{pid} {span}", partial(memory.read, min(CHUNK, end - at)))
    return b""


def _processes(search: Search) -> None:
    """Search what the kernel shows of every process; their memory too, unless root, who may read all, runs this."""
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal() or int(directory.name) == os.getpid():
            continue
        for file in ("environ", "cmdline"):
            search.attempt("processes", f"{directory.name}/{file}", (directory / file).read_bytes)
        try:
            ours = b"freshline" in (directory / "cmdline").read_bytes()
        except OSError:
            continue
        if ours:
            _descriptors(search, directory)
            if os.getuid() != 0:
                search.attempt("memory of others", directory.name, partial(_memory, directory.name, search))


def _descriptors(search: Search, directory: Path) -> None:
    try:
        links = list((directory / "fd").iterdir())
    except OSError as error:
        search.look("descriptors", directory.name, str(error))
        return
    for link in links:
        search.attempt("descriptors", str(link), lambda link=link: str(link.readlink()))  # type: ignore[misc]
        search.attempt("descriptors", str(link), partial(_content, link))


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_FILE else b""


def _files(search: Search) -> None:
    """Search the project with its state and the logs of its processes, scratch directories and usual places."""
    temporary = Path(tempfile.gettempdir())
    home = Path(os.environ.get("HOME", "/nowhere"))
    roots = [Path.cwd(), *temporary.glob("freshline-runner-*"), Path("/dev/shm")]  # noqa: S108 - it is read
    usual = [home / name for name in (".pgpass", ".pg_service.conf", ".netrc", ".aws/credentials", ".bash_history")]
    for path in [*usual, *(Path(top, name) for root in roots for top, _, names in os.walk(root) for name in names)]:
        search.attempt("files", str(path), partial(_content, path))


def _greet(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=0.3) as connection:
        connection.sendall(b"GET /environment/ HTTP/1.0\r\n\r\n")
        return connection.recv(65_536)


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - the API of the test
        return bytes(answer.read())
