"""Where a request comes from: a local program, the page of this API, or a page of another site."""

from __future__ import annotations

import ipaddress

from fastapi import Request

from freshline.api.problems import RequestError

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = frozenset({"localhost", "localhost.", "ip6-localhost"})
JSON_TYPE = "application/json"
PAGE_HEADER = "freshline-request"
PAGE_VALUE = "page"


def check_local(request: Request) -> None:
    """Reject a request without a token that a web page could have caused."""
    host = request.headers.get("host", "")
    if not is_loopback(host_name(host)):
        raise RequestError(
            403,
            "host-not-allowed",
            "without a token the Host must be a loopback address, such as 127.0.0.1 or localhost",
        )
    if request.method in SAFE:
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise RequestError(
            403, "origin-not-allowed", "without a token a change cannot be requested by a page of another site"
        )
    if content_type(request) != JSON_TYPE:
        raise RequestError(415, "json-needed", f"without a token a change needs `Content-Type: {JSON_TYPE}`")


def check_page(request: Request) -> None:
    """Reject a change with a cookie that is not one of our page.

    Browsers send the cookie by themselves, so a change needs what another site's page cannot send: a header of its
    own, which needs a permission that is never given, JSON, and the origin of this API, if the browser names one.
    """
    if request.headers.get(PAGE_HEADER) != PAGE_VALUE:
        raise RequestError(
            403, "page-header-needed", "a change with a cookie needs the header `Freshline-Request: page`"
        )
    check_origin(request)
    if content_type(request) != JSON_TYPE:
        raise RequestError(415, "json-needed", f"a change with a cookie needs `Content-Type: {JSON_TYPE}`")


def check_origin(request: Request) -> None:
    """Reject a request that names another origin.

    A proxy with TLS changes the scheme, so only hosts are compared. It passes the host of the client as Host or
    X-Forwarded-Host; a page of another site can set neither.
    """
    origin = request.headers.get("origin")
    if origin is None:
        return
    scheme, _, host = origin.partition("://")
    own = {request.headers.get(name) for name in ("host", "x-forwarded-host")}
    if scheme not in {"http", "https"} or host not in own:
        raise RequestError(
            403,
            "origin-not-allowed",
            "a change with a cookie cannot be requested by a page of another site; behind a proxy, let it pass the "
            "client's Host, or set X-Forwarded-Host",
        )


def content_type(request: Request) -> str:
    """Return the media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Return whether a name or an address is a loopback address."""
    if name.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
