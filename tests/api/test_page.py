"""The page: the files of its bundle, and nothing else."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from freshline.api.bundle import HASHED
from tests.api.conftest import Api, serving
from tests.store_harness import Lab

INDEX = "<!DOCTYPE html><title>Freshline</title><script type=module src=./page/main-BxY12_-z.js></script>"
SCRIPT = "export const words = 'fresh and stale';\n" * 100
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return the directory of a bundle, beside a file that must not be served."""
    root = tmp_path / "page_files"
    (root / "page" / "fonts").mkdir(parents=True)
    (root / "index.html").write_text(INDEX)
    (root / "page" / "main-BxY12_-z.js").write_text(SCRIPT)
    (root / "page" / "icon-freshline.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (root / "page" / "fonts" / "one.woff2").write_bytes(b"font")
    (root / "page" / "odd.exe").write_bytes(b"<script>")
    (root / "secret.txt").write_text("canary-4711")
    (tmp_path / "secret.txt").write_text("canary-4711")
    (root / "page" / "link.txt").symlink_to(tmp_path / "secret.txt")
    return root


@pytest.fixture
def page(lab: Lab, bundle: Path) -> Iterator[Api]:
    """Yield an API with this bundle, where every request needs a token."""
    with serving(lab, auth="token", page_files=bundle) as api:
        yield api


def get(api: Api, path: str, **headers: str) -> httpx.Response:
    """Return the answer to a request at the root."""
    return api.client.get(api.server.url + path, headers=headers)


def test_the_page_is_served_with_a_policy_and_is_never_cached(page: Api) -> None:
    """Without a token: it contains no data. It may load and run only what this API serves."""
    answer = get(page, "/")
    assert (answer.status_code, answer.text) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "type_", "cached"),
    [
        ("main-BxY12_-z.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        ("icon-freshline.svg", "image/svg+xml", "no-cache"),
        ("fonts/one.woff2", "font/woff2", "no-cache"),
        ("odd.exe", "application/octet-stream", "no-cache"),
    ],
)
def test_a_file_has_its_type_and_is_cached_if_its_name_has_a_hash(
    page: Api, name: str, type_: str, cached: str
) -> None:
    """A type that is not known is not guessed. The policy holds for files too."""
    answer = get(page, f"/page/{name}")
    assert answer.status_code == 200
    assert (answer.headers["content-type"], answer.headers["cache-control"]) == (type_, cached)
    assert answer.headers["content-security-policy"] == POLICY
    again = get(page, f"/page/{name}", **{"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_texts_are_compressed_for_those_who_ask(page: Api) -> None:
    """With gzip, which every browser has; a client without it gets the text."""
    plain = get(page, "/page/main-BxY12_-z.js", **{"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == SCRIPT
    small = get(page, "/page/main-BxY12_-z.js", **{"Accept-Encoding": "gzip, br"})
    assert (small.headers["content-encoding"], small.text) == ("gzip", SCRIPT)
    assert int(small.headers["content-length"]) == len(gzip.compress(SCRIPT.encode(), 9, mtime=0)) < len(SCRIPT) / 10


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page",
        "/page/missing.js",
        "/page/fonts",
        "/page/../secret.txt",
        "/page/../../secret.txt",
        "/page/..%2fsecret.txt",
        "/page/%2e%2e/secret.txt",
        "/page/%2e%2e%2f%2e%2e%2fsecret.txt",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/..\\secret.txt",
        "/page/fonts/../../secret.txt",
        "/page/link.txt",
        "/page/secret.txt",
        "/page/main-BxY12_-z.js%00.txt",
        "/page/main-BxY12_-z.js/",
        "/secret.txt",
        "/index.html",
        "/page_files/index.html",
        "/page/" + "x" * 400,
    ],
)
def test_no_path_leads_to_another_file(page: Api, path: str) -> None:
    """Sent as it is, without the corrections of a client: a problem, and nothing of the file."""
    with socket.create_connection(page.server.address, timeout=30) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    status = answer.split(maxsplit=2)[1]
    assert status in {b"404", b"422"}, answer
    assert b"application/problem+json" in answer
    assert b"canary-4711" not in answer


def test_a_missing_file_is_a_problem(page: Api) -> None:
    """An older page asks for files that a newer bundle does not have."""
    answer = get(page, "/page/main-older000.js")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert "reload" in answer.json()["detail"]
    assert answer.headers["cache-control"] == "no-store"


def test_a_new_bundle_is_served_at_once(page: Api, bundle: Path) -> None:
    """Who builds the page again does not restart the API."""
    assert get(page, "/page/more-A1b2C3d4.js").status_code == 404
    (bundle / "page" / "more-A1b2C3d4.js").write_text("1")
    (bundle / "index.html").write_text("new")
    stat = (bundle / "page").stat()
    os.utime(bundle / "page", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert get(page, "/").text == "new"
    assert get(page, "/page/more-A1b2C3d4.js").status_code == 200


def test_without_a_bundle_the_small_page_says_how_to_build_it(api: Api) -> None:
    """The links stay; files of the page do not exist."""
    answer = get(api, "/")
    assert answer.status_code == 200
    assert "<code>make setup</code> builds it" in answer.text
    assert get(api, "/page/main-BxY12_-z.js").status_code == 404


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("index-D3kf9_aB.css", True),
        ("main.a1b2c3d4.js", True),
        ("icon-freshline.svg", False),
        ("site-security.js", False),
    ],
)
def test_a_word_is_not_a_hash(name: str, hashed: bool) -> None:
    """What is cached for a year must change its name with its content."""
    assert (HASHED.search(name) is not None) == hashed
