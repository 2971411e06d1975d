"""A POST ends within its timeout, follows no redirect, and shows nothing that the receiver sent."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import UsageError
from freshline.webhooks import exchange
from freshline.webhooks.http import InterruptedPostError, Post, PostError
from freshline.webhooks.signature import ALLOWED, new_secret, read_secret, sign
from tests.waiting import wait_until
from tests.webhooks.conftest import LOOPBACK
from tests.webhooks.receiver import Receiver


def post(url: str, timeout_s: float = 0.5) -> Post:
    """One that may go to this machine."""
    return Post(url, allowed=LOOPBACK, timeout_s=timeout_s)


@contextmanager
def server(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the URL of a server that does not speak HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(100_000)
                try:
                    behave(line)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


def drip(line: socket.socket) -> None:
    """Send single bytes forever, each within the timeout."""
    line.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        line.sendall(b"X-A: b\r\n")
        time.sleep(0.05)  # the receiver's own pace, which the test does not wait for


def mute(line: socket.socket) -> None:
    """Accept connections and send nothing."""
    while line.recv(1000):
        pass


def test_an_answer_that_never_ends_is_given_up() -> None:
    """The limit is on the whole, not on each byte."""
    with server(drip) as url:
        started = time.monotonic()
        with pytest.raises(PostError, match=r"no answer within 0\.5 s"):
            post(url).send(b"{}", {})
        assert time.monotonic() - started < 5


def test_silence_is_given_up() -> None:
    """Nobody answers."""
    with server(mute) as url, pytest.raises(PostError, match="no answer within"):
        post(url).send(b"{}", {})


def test_what_is_no_http_is_told_without_its_words() -> None:
    """A reply may contain anything, such as a secret of an internal service."""
    with (
        server(lambda line: line.sendall(b"-ERR canary-4711\r\n")) as url,
        pytest.raises(PostError, match="not HTTP") as told,
    ):
        post(url).send(b"{}", {})
    assert "canary" not in str(told.value)


def test_a_long_answer_is_not_read() -> None:
    """Only the status is needed, so a receiver cannot fill the memory."""

    def flood(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            line.sendall(b"x" * 65536)

    with server(flood) as url:
        assert post(url, 5).send(b"{}", {}) == 200


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    """Only the checked address is used."""
    receiver.answer = status
    with pytest.raises(PostError, match=f"answered {status}, and redirects are not followed"):
        post(receiver.url).send(b"{}", {})
    assert len(receiver.asked) == 1


def test_nobody_there_is_told_in_a_sentence() -> None:
    """No traceback, no address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(PostError, match="cannot be reached: Connection refused"):
        post(f"http://127.0.0.1:{port}/").send(b"{}", {})


def test_it_can_be_interrupted() -> None:
    """At once, by another thread; nothing is known about the letter then."""
    with server(mute) as url:
        one = post(url, 30)
        told: list[Exception] = []

        def send() -> None:
            try:
                one.send(b"{}", {})
            except PostError as error:
                told.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: one._socket is not None)
        one.interrupt()
        thread.join(5)
        assert [type(error) for error in told] == [InterruptedPostError]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a self-signed certificate for hooks.example and its key."""
    file = tmp_path / "both.pem"
    key, made = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hooks.example"]
    words += ["-addext", "subjectAltName=DNS:hooks.example", "-keyout", str(key), "-out", str(made)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    file.write_text(key.read_text() + made.read_text())
    return file


def test_the_certificate_must_be_of_the_name(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the connection goes to a checked address, TLS is about the name; an unknown issuer is refused."""
    receiver = Receiver(certificate)
    real = socket.getaddrinfo

    def getaddrinfo(name: str, *arguments: Any, **more: Any) -> Any:
        return real("127.0.0.1" if name.endswith(".example") else name, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    trusted = ssl.create_default_context(cafile=str(certificate))
    with pytest.raises(PostError, match="certificate is not valid: self"):
        post(f"https://hooks.example:{receiver.port}/", 5).send(b"{}", {})
    monkeypatch.setattr(exchange, "_context", lambda: trusted)
    assert post(f"https://hooks.example:{receiver.port}/", 5).send(b"{}", {}) == 204
    with pytest.raises(PostError, match="certificate is not valid: Hostname mismatch"):
        post(f"https://other.example:{receiver.port}/", 5).send(b"{}", {})
    receiver.close()


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of the Standard Webhooks reference libraries."""
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["", "canary-4711", "whsec_", "whsec_canary", "whsec_" + "A" * 100, "whsec_é"])
def test_a_secret_of_another_form_is_refused_without_being_repeated(text: str) -> None:
    """Ours is of the right form, and never the same."""
    with pytest.raises(UsageError) as refused:
        read_secret(text)
    assert str(refused.value) == f"the secret of a webhook has another form; allowed is {ALLOWED}"
    assert len(read_secret(new_secret())) == 32
    assert new_secret() != new_secret()
