"""An object store for tests: the S3 interface over a directory. Clients and Spark see the same files.

It implements what the clients in `freshline.storage.object_store` and `deltalake` use: objects, ranges, conditional
puts, copies, paged lists, bulk deletes. With FRESHLINE_TEST_BUCKET, the storage tests use a real store as well.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET

BUCKET, WAREHOUSE = "bucket", "warehouse"
KEY, SECRET = "freshlinekey", "canary-7c1e0b"
PAGE = 3  # objects in a list: few, so that tests see several pages
TEMPORARY = ".put-"


class Request(NamedTuple):
    """A request of a client."""

    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """The reply to a request."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


Fault = Callable[[Request], Answer | None]


class ObjectStore:
    """One bucket. `fault` may answer instead of the store; `seen` has all requests.

    `honest`: whether it honours `If-None-Match`. Some stores ignore it and overwrite the object.
    """

    def __init__(self, root: Path) -> None:
        self.bucket = root / BUCKET
        self.warehouse.mkdir(parents=True)
        self.honest = True
        self.fault: Fault = lambda _request: None
        self.seen: list[Request] = []
        self._writing = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, name="objects").start()

    @property
    def address(self) -> str:
        """Return the value of FRESHLINE_WAREHOUSE."""
        return f"s3a://{BUCKET}/{WAREHOUSE}"

    @property
    def warehouse(self) -> Path:
        """Return the directory behind the address."""
        return self.bucket / WAREHOUSE

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment variables with endpoint and credentials."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        self.seen.append(request)
        if (failed := self.fault(request)) is not None:
            return failed
        if f"Credential={KEY}/" not in request.headers.get("authorization", ""):
            return _error(HTTPStatus.FORBIDDEN, "InvalidAccessKeyId")
        match request.method:
            case "GET" if "list-type" in request.query:
                return self._list(request.query)
            case "GET" | "HEAD":
                return self._get(request)
            case "PUT":
                return self._put(request)
            case "POST" if "delete" in request.query:
                return self._delete(request.body)
        return _error(HTTPStatus.NOT_IMPLEMENTED, request.method)

    def _get(self, request: Request) -> Answer:
        path = self.bucket / request.key
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        headers = {"ETag": _tag(content), "Last-Modified": f"{_time(path):%a, %d %b %Y %H:%M:%S GMT}"}
        if "range" not in request.headers:
            return Answer(HTTPStatus.OK, content, headers)
        first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
        begin = int(first) if first else len(content) - int(last)
        part = content[begin : int(last) + 1 if first and last else None]
        headers["Content-Range"] = f"bytes {begin}-{begin + len(part) - 1}/{len(content)}"
        return Answer(HTTPStatus.PARTIAL_CONTENT, part, headers)

    def _put(self, request: Request) -> Answer:
        path = self.bucket / request.key
        if (source := request.headers.get("x-amz-copy-source")) is not None:
            content = (self.bucket.parent / unquote(source).lstrip("/")).read_bytes()
            self._put(request._replace(headers={}, body=content))
            return Answer(HTTPStatus.OK, f"<CopyObjectResult><ETag>{_tag(content)}</ETag></CopyObjectResult>".encode())
        with self._writing:
            if self.honest and request.headers.get("if-none-match") == "*" and path.exists():
                return _error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
            path.parent.mkdir(parents=True, exist_ok=True)
            made = path.with_name(f"{TEMPORARY}{path.name}")
            made.write_bytes(request.body)
            made.replace(path)
        return Answer(HTTPStatus.OK, headers={"ETag": _tag(request.body)})

    def _delete(self, body: bytes) -> Answer:
        root = ET.fromstring(body)  # noqa: S314 - it is our own client's
        keys = [text for node in root.iter() if node.tag.endswith("Key") and (text := node.text)]
        for key in keys:
            (self.bucket / key).unlink(missing_ok=True)
            self._forget_empty((self.bucket / key).parent)
        said = "".join(f"<Deleted><Key>{_escaped(key)}</Key></Deleted>" for key in keys)
        return _document(f"<DeleteResult>{said}</DeleteResult>")

    def _forget_empty(self, directory: Path) -> None:
        """Remove empty directories, which an object store does not have."""
        while directory != self.warehouse and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
            directory = directory.parent

    def _list(self, query: dict[str, str]) -> Answer:
        prefix, delimiter, after = (query.get(name, "") for name in ("prefix", "delimiter", "continuation-token"))
        entries = sorted(self._entries(prefix, delimiter))
        left = [one for one in entries if one > after]
        said = "".join(self._entry(one) for one in left[:PAGE])
        if len(left) > PAGE:
            token = f"<NextContinuationToken>{_escaped(left[PAGE - 1])}</NextContinuationToken>"
            said += f"<IsTruncated>true</IsTruncated>{token}"
        return _document(f"<ListBucketResult><Name>{BUCKET}</Name>{said}</ListBucketResult>")

    def _entries(self, prefix: str, delimiter: str) -> set[str]:
        """Return keys, and prefixes up to and including the next delimiter."""
        keys = [str(path.relative_to(self.bucket)) for path in self.bucket.rglob("*") if path.is_file()]
        found = [key for key in keys if key.startswith(prefix) and TEMPORARY not in key]
        if not delimiter:
            return set(found)
        ends = ((key, key.find(delimiter, len(prefix))) for key in found)
        return {key if end < 0 else key[: end + 1] for key, end in ends}

    def _entry(self, name: str) -> str:
        if name.endswith("/"):
            return f"<CommonPrefixes><Prefix>{_escaped(name)}</Prefix></CommonPrefixes>"
        path = self.bucket / name
        size, made = path.stat().st_size, _time(path).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        facts = f"<Key>{_escaped(name)}</Key><Size>{size}</Size><LastModified>{made}</LastModified>"
        return f"<Contents>{facts}<ETag>{_escaped(_tag(name.encode()))}</ETag></Contents>"


def _handler(store: ObjectStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 2**16

        def answer(self) -> None:
            address = urlsplit(self.path)
            answer = store.answer(
                Request(
                    self.command,
                    unquote(address.path).removeprefix(f"/{BUCKET}").strip("/"),
                    {name: one[0] for name, one in parse_qs(address.query, keep_blank_values=True).items()},
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(int(self.headers.get("content-length", 0))),
                )
            )
            self.send_response_only(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else answer.body)

        do_GET = do_HEAD = do_PUT = do_POST = answer  # noqa: N815 - http.server's names

    return Handler


def _document(text: str) -> Answer:
    return Answer(
        HTTPStatus.OK, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), {"Content-Type": "application/xml"}
    )


def _error(status: int, code: str) -> Answer:
    return _document(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")._replace(status=status)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _time(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def overlay(store: ObjectStore) -> dict[str, str]:
    """Return the Hadoop settings by which Spark finds the bucket's directory under its address."""
    return {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.s3a.impl.disable.cache": "true",
        "fs.viewfs.overload.scheme.target.s3a.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{BUCKET}.link./{WAREHOUSE}": store.warehouse.as_uri(),
    }


def serving(root: Path) -> Iterator[ObjectStore]:
    """Yield a running store, and stop it afterwards."""
    store = ObjectStore(root)
    try:
        yield store
    finally:
        store.stop()
