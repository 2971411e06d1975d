"""The kind `http` on a real server: versions, conditional requests, limits, and the egress policy of webhooks."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from freshline.definitions.schema.watch import HttpWatch
from freshline.model.json import Json
from freshline.watching import http
from freshline.watching.json_pointer import value_at
from freshline.watching.look import Look, LookError, Mode
from tests.watching.http_server import FileServer
from tests.watching.looks import context

TOKEN = "canary-token"  # noqa: S105 - of nobody
DAY = "Mon, 05 Jan 2026 09:00:00 GMT"


@pytest.fixture
def server() -> Iterator[FileServer]:
    """Yield a server of one file without validators."""
    server = FileServer()
    yield server
    server.close()


def look(
    url: str,
    mode: Mode = "snapshot",
    position: Json | None = None,
    *,
    timeout_s: float = 5,
    private: bool = True,
    **more: Any,
) -> Look:
    """Look at a URL."""
    spec = HttpWatch.model_validate({"http": url, **more})
    return http.look(spec, mode, position, context({"TOKEN": TOKEN}, timeout_s=timeout_s, private=private))


def error(url: str, **more: Any) -> str:
    """Return the error of a look, which never has the token."""
    with pytest.raises(LookError) as raised:
        look(url, **more)
    assert TOKEN not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({"ETag": '"a1"', "Last-Modified": DAY}, '"a1"'),
        ({"ETag": 'W/"a1"'}, 'W/"a1"'),
        ({"Last-Modified": DAY}, DAY),
        ({}, f"sha256:{hashlib.sha256(b'one').hexdigest()}"),
        ({"ETag": "x" * 600}, f"sha256:{hashlib.sha256(b'x' * 600).hexdigest()}"),
    ],
)
def test_the_first_of_etag_last_modified_and_digest_is_the_version(
    server: FileServer, headers: dict[str, str], version: str
) -> None:
    """A validator that is too long to be a version counts by its digest."""
    server.headers = headers
    assert look(server.url).found[0].data_version == version


def test_a_file_that_did_not_change_is_not_sent_again(server: FileServer) -> None:
    """The request names the validators of the last answer; a new version is found when they do not fit."""
    server.headers = {"ETag": '"a1"', "Last-Modified": DAY}
    first = look(server.url)
    second = look(server.url, position=first.position)
    assert (second.found, second.position) == ((), first.position)
    assert "304" in second.summary
    asked = server.asked[-1]
    assert (asked["If-None-Match"], asked["If-Modified-Since"]) == ('"a1"', DAY)
    server.headers = {"ETag": '"b2"'}
    assert look(server.url, position=second.position).found[0].data_version == '"b2"'


def test_a_version_that_comes_back_is_a_change(server: FileServer) -> None:
    """The data is again what it was, and its consumers have read other data since."""
    versions, position = [], None
    for body in (b"one", b"two", b"two", b"one"):
        server.body = body
        found = look(server.url, position=position)
        versions += [one.data_version for one in found.found]
        position = found.position
    assert (len(versions), versions[0]) == (3, versions[2])


def test_an_append_source_gets_a_delivery_per_change(server: FileServer) -> None:
    """With the version before and the new one."""
    server.headers = {"ETag": '"a1"'}
    first = look(server.url, "append")
    server.headers = {"ETag": '"b2"'}
    second = look(server.url, "append", first.position)
    assert [one.payload for one in (*first.found, *second.found)] == [
        {"from": None, "to": '"a1"'},
        {"from": '"a1"', "to": '"b2"'},
    ]


@pytest.mark.parametrize(
    ("document", "pointer", "version"),
    [
        ({"version": "7", "time": 1}, "/version", "7"),
        ({"version": 7}, "/version", "7"),
        ({"done": True}, "/done", "true"),
        ({"runs": [{"id": "a"}, {"id": "b"}]}, "/runs/1/id", "b"),
        ({"a/b": {"~": 1.5}}, "/a~1b/~0", "1.5"),
        ("text", "", "text"),
    ],
)
def test_a_pointer_names_the_version_in_a_json_body(
    server: FileServer, document: Any, pointer: str, version: str
) -> None:
    """Other parts of the body may change, and so may the ETag."""
    server.body, server.headers = json.dumps(document).encode(), {"ETag": '"a1"'}
    first = look(server.url, pointer=pointer)
    assert first.found[0].data_version == version
    server.body, server.headers = json.dumps(document, indent=3).encode(), {"ETag": '"b2"'}
    assert look(server.url, position=first.position, pointer=pointer).found == ()


def test_a_pointer_to_an_object_counts_by_its_digest(server: FileServer) -> None:
    """The order of its fields has no meaning."""
    server.body = b'{"files": {"a": 1, "b": 2}}'
    first = look(server.url, pointer="/files")
    server.body = b'{"files": {"b": 2, "a": 1}}'
    assert look(server.url, position=first.position, pointer="/files").found == ()
    server.body = b'{"files": {"b": 2, "a": 3}}'
    assert len(look(server.url, position=first.position, pointer="/files").found) == 1


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        (b"<html>canary</html>", "/version", "the body is not JSON"),
        (b"[" * 200_000, "/version", "the body is not JSON"),
        (b'{"a": {"canary": 1}}', "/a/b", "no value at '/a/b': '/a/b' leads nowhere"),
        (b"[1]", "/1", "no value at '/1'"),
        (b"[1]", "/-", "no value at '/-'"),
        (b'{"version": null}', "/version", "the value at the pointer is null"),
        (b'"' + b"canary" * 100 + b'"', "", "the watermark has 600 characters"),
    ],
)
def test_a_body_without_the_value_is_an_error(server: FileServer, body: bytes, pointer: str, message: str) -> None:
    """The error shows the pointer and nothing of the body."""
    server.body = body
    found = error(server.url, pointer=pointer)
    assert message in found
    assert "canary" not in found


def test_the_body_has_a_limit(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it is needed: a large file with an ETag is not read."""
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1_000)
    server.body = b"x" * 1_000
    assert len(look(server.url).found) == 1
    server.body = b"x" * 1_001
    assert "larger ones need an ETag" in error(server.url)
    server.headers = {"ETag": '"a1"'}
    assert len(look(server.url).found) == 1


def test_a_body_that_ends_early_has_no_digest(server: FileServer) -> None:
    """It would be the version of a part of the file."""
    server.cut = 2
    assert "ended early" in error(server.url)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (301, "the server answered 301, and redirects are not followed; expected is 200"),
        (404, "the server answered 404; expected is 200"),
        (401, "name a header with the credentials"),
        (429, "look less often"),
        (206, "the server answered 206"),
    ],
)
def test_other_answers_are_errors(server: FileServer, status: int, message: str) -> None:
    """A redirect could lead where the egress policy does not allow."""
    server.status, server.headers = status, {"Location": server.url}
    assert message in error(server.url)


def test_headers_come_from_variables(server: FileServer) -> None:
    """And are sent with each request."""
    look(server.url, headers={"Authorization": {"env": "TOKEN"}})
    assert server.asked[-1]["Authorization"] == TOKEN


def test_private_addresses_need_permission(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for webhooks, also behind a name; the hint names the setting."""
    said = error(server.url, private=False)
    assert "the address 127.0.0.1 is not public, and watchers may not go there" in said
    assert "FRESHLINE_WEBHOOK_ALLOW_PRIVATE" in said
    inner = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: inner)
    assert "the address 10.0.0.1 is not public" in error("https://metadata.example/")
    assert server.asked == []


def test_an_address_of_another_form_is_an_error() -> None:
    """A user or a password in a URL would be stored with the definition."""
    assert "without a user or a password" in error("https://user:canary-token@example.com/")


def test_a_server_that_sends_nothing_is_given_up() -> None:
    """Within the timeout of the watch."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        began = time.monotonic()
        found = error(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout_s=0.3)
        assert time.monotonic() - began < 3
    assert "there was no answer within 0.3 s" in found


def test_a_server_that_is_not_there_is_named_as_that() -> None:
    """Without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert "the server cannot be reached: Connection refused" in error(f"http://127.0.0.1:{port}/")


def test_the_examples_of_the_rfc() -> None:
    """RFC 6901, section 5."""
    document = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, " ": 7}
    wanted = {"": document, "/foo": ["bar", "baz"], "/foo/0": "bar", "/": 0, "/a~1b": 1, "/c%d": 2, "/m~0n": 8, "/ ": 7}
    assert {pointer: value_at(document, pointer) for pointer in wanted} == wanted
