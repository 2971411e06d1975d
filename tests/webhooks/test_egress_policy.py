"""Webhooks do not reach private addresses, in any notation and after any change of a name."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from freshline.errors import UsageError
from freshline.services.webhook_sender import WebhookSender
from freshline.settings import load
from freshline.store.webhooks.subscriptions import Webhook
from freshline.webhooks.egress_policy import AddressError, check_url, is_public, resolve
from freshline.webhooks.http import Post
from tests.store_harness import Lab, laboratory
from tests.webhooks.conftest import LOOPBACK
from tests.webhooks.receiver import Receiver, secret_bytes

INSIDE = [
    "0.0.0.0",  # noqa: S104 - it must be refused
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
]
WRITTEN = ["127.1", "2130706433", "0x7f000001", "017700000001", "localhost", "LOCALHOST", "127.0.0.1."]


def host(address: str) -> str:
    """As it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def answering(*addresses: str) -> Any:
    """Install a resolver with one answer."""

    def getaddrinfo(_: str, port: int, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return getaddrinfo


@pytest.mark.parametrize("address", INSIDE)
def test_no_address_inside_is_allowed(address: str) -> None:
    """Private, loopback, link-local, multicast, reserved: neither written nor behind a name."""
    assert not is_public(ip_address(address))
    with pytest.raises(AddressError, match=r"is not public.*FRESHLINE_WEBHOOK_ALLOW_PRIVATE"):
        check_url(f"https://{host(address)}/", ())
    with pytest.raises(AddressError, match="is not public"):
        resolve(f"https://{host(address)}/", ())


@pytest.mark.parametrize("name", WRITTEN)
def test_no_other_way_to_write_loopback_helps(name: str) -> None:
    """The resolved address counts."""
    with pytest.raises(AddressError):
        resolve(f"https://{name}/", ())


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2002:808:808::", "64:ff9b::808:808"]
)
def test_public_addresses_are_allowed_by_https_only(address: str) -> None:
    """Public addresses need https, whatever private networks are allowed."""
    check_url(f"https://{host(address)}/", ())
    assert resolve(f"https://{host(address)}:8443/x?y", ()).path == "/x?y"
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    for allowed in ((), LOOPBACK, everything):
        with pytest.raises(AddressError, match=r"https://"):
            resolve(f"http://{host(address)}/", allowed)


def test_one_inner_address_of_a_name_is_enough_to_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every address is checked, not the one that comes first."""
    monkeypatch.setattr(socket, "getaddrinfo", answering("8.8.8.8", "10.0.0.1"))
    with pytest.raises(AddressError, match=r"10\.0\.0\.1 is not public"):
        resolve("https://mixed.example/", ())
    monkeypatch.setattr(socket, "getaddrinfo", answering("8.8.8.8", "1.1.1.1"))
    assert resolve("https://good.example/", ()).addresses == ("8.8.8.8", "1.1.1.1")


def test_a_name_that_becomes_another_address_is_not_followed(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the name is resolved once, and the checked address is used."""
    answers = iter([("127.0.0.1",), ("127.0.0.2",), ("127.0.0.3",)])
    asked: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(name: str, port: int, *arguments: Any, **more: Any) -> Any:
        if name != "rebinding.example":
            return real(name, port, *arguments, **more)
        asked.append(name)
        return answering(*next(answers))(name, port)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    url = f"http://rebinding.example:{receiver.port}/hook"
    Post(url, allowed=(ip_network("127.0.0.1"),), timeout_s=2).send(b"{}", {})
    assert asked == ["rebinding.example"]
    assert receiver.received[0].headers["host"] == f"rebinding.example:{receiver.port}"
    with pytest.raises(AddressError, match=r"127\.0\.0\.2"):
        Post(url, allowed=(ip_network("127.0.0.1"),), timeout_s=2).send(b"{}", {})


def test_nothing_reaches_a_private_receiver_unless_it_is_allowed(database_url: str, receiver: Receiver) -> None:
    """By address and by name: no byte arrives, the delivery waits, and the failure is recorded."""
    with laboratory(database_url) as lab:
        for name, url in (("address", receiver.url), ("name", receiver.url.replace("127.0.0.1", "localhost"))):
            lab.store.webhooks.add(Webhook(name, url, secret_bytes(receiver)))
        lab.apply(sources=("a",))
        lab.report("a")
        lab.store.events.stamp_positions(100)
        sender = WebhookSender(lab.store)
        while sender.run_once():
            pass
        troubles = [str(one["trouble"]) for one in lab.store.reader.webhooks()]
    assert receiver.asked == []
    assert all("is not public, and webhooks may not go there" in one for one in troubles)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "https://",
        "https:///path",
        "https://user:canary-4711@example.com/",
        "https://canary-4711@example.com/",
        "https://example.com/#canary-4711",
        "https://example.com:99999/canary-4711",
        "https://example.com:0/",
        "https://exämple.com/canary-4711",
        "https://example.com/a b",
        "https://example.com/\r\nX: canary-4711",
        "https://[::1/canary-4711",
        "file:///etc/passwd",
        "https://example.com/" + "x" * 2000,
        "example.com",
        "",
    ],
)
def test_what_is_no_address_is_refused_without_being_repeated(url: str) -> None:
    """It may contain a password."""
    with pytest.raises(AddressError, match=r"allowed is https://host\[:port\]") as refused:
        check_url(url, ())
    assert "canary" not in str(refused.value)


def test_clear_text_needs_a_private_network_that_is_allowed() -> None:
    """http:// to a name is refused at once where no private network is allowed at all."""
    with pytest.raises(AddressError, match="http://"):
        check_url("http://example.com/", ())
    check_url("http://intranet.example/", LOOPBACK)


def test_the_setting_takes_networks_and_addresses() -> None:
    """And refuses everything else by its name."""
    given = load({"FRESHLINE_WEBHOOK_ALLOW_PRIVATE": "10.0.0.0/8, 127.0.0.1,fd00::/8"}).webhook_allow_private
    assert given == (ip_network("10.0.0.0/8"), ip_network("127.0.0.1"), ip_network("fd00::/8"))
    assert resolve("http://[::ffff:10.0.0.1]/", given).addresses
    for wrong in ("yes", "10.0.0.1/8", "localhost"):
        with pytest.raises(UsageError, match="FRESHLINE_WEBHOOK_ALLOW_PRIVATE"):
            load({"FRESHLINE_WEBHOOK_ALLOW_PRIVATE": wrong})


def test_the_lab_is_allowed_to(lab: Lab) -> None:
    """The other tests rely on it."""
    assert resolve("http://127.0.0.1:1/", lab.settings.webhook_allow_private).addresses == ("127.0.0.1",)
