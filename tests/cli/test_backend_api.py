"""The command line through the API: the same answers as on the database, or an error that says what to do."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from freshline import __version__
from freshline.api.server import Server
from freshline.cli.backend import api as remote
from freshline.cli.backend import http as wire
from freshline.cli.follow import DecisionFollower, EventFollower, RunFollower
from freshline.cli.main import COMMANDS
from freshline.definitions.loading.project import load_project
from freshline.model.run import StagedOutput
from freshline.services.inbox_consumer import InboxConsumer
from freshline.services.reconciler import Reconciler
from freshline.settings import load
from freshline.store.db.ids import new_id
from freshline.store.db.opening import open_store
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store
from tests.cli.conftest import Freshline

SECRET = "freshline_canary-4711"  # noqa: S105 - made up
MINUTE_MS = 60_000
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\"\s]*")
AGE = re.compile(r"[\d.]+ (ms|s|min)\b *")
# The commands that run in this order on two databases. {run}: the run requested before.
SCRIPT = [
    'report shop.raw --version v1 --key k --sequence 3 --payload {"rows":3}',
    'report shop.raw --version v1 --key k --sequence 3 --payload {"rows":3}',
    "report shop.raw --version v0 --sequence 1",
    "!settle",
    "!work",
    "status",
    "status shop.clean",
    "status make-daily",
    "why shop.clean",
    "why-not make-clean --limit 1",
    "why shop.raw",
    "plan shop.raw",
    "plan shop.daily",
    "partitions shop.days --state missing",
    "report shop.days --partition 2025-12-30 --version v1",
    "partitions shop.days",
    "status shop.days",
    "events --asset shop.days --partition 2025-12-30",
    "graph",
    "graph shop.clean",
    "show shop.clean",
    "show shop.raw --version 1",
    "run make-clean --param day=1 --param where=x --key schlüssel-1",
    "run make-clean --param day=1 --param where=x --key schlüssel-1",
    "run shop.clean --key of-an-asset",
    "status shop.*",
    "runs",
    "runs --asset shop.clean --trigger manual --since 1d --state queued",
    "events --asset shop.clean --since 1d --until 2099-01-01",
    "events --asset shop.clean --type asset",
    "events --asset shop.* --limit 2",
    "events --subject make-*",
    "runs --asset shop.* --of shop",
    "runs --workflow make-* --limit 1",
    "decisions --workflow make-* --outcome run",
    "decisions --outcome run --since 1d",
    "runs --status queued --workflow make-clean",
    "runs {run}",
    "logs {run}",
    "logs {run} --tail 1 --since 1d",
    "cancel {run} --reason no",
    "cancel {run}",
    "pause make-clean --until 2h",
    "pause make-clean",
    "resume make-clean",
    "reset make-daily",
    "!recode",
    "accept shop.clean",
    "expire shop.clean",
    "delivery list shop.raw",
    "!watch",
    "watch list",
    "watch show shop.raw",
    "!settle",
    "events --limit 1000",
    "events --type asset --subject shop.raw --limit 1",
    "events 1",
    "decisions",
    "decisions --asset shop.clean",
    "decisions --workflow make-daily --limit 1",
    "audit shop.raw",
    "backfill list",
    "!worker",
    "workers",
]  # fmt: skip
WATCHED = """
INSERT INTO watches (asset_id, kind, mode, spec, every_ms, timeout_ms, next_at)
VALUES ('shop.raw', 'files', 'snapshot', '{"files": "drop/*.csv"}', 30000, 30000, now())
"""
RECODED = """
UPDATE assets SET declaration = declaration || '{"table": {"mode": "append"}}' WHERE id = 'shop.clean';
UPDATE snapshots SET code = '[{"workflow": 1, "workflowVersion": 0, "rows": 3, "parts": 1}]'
 WHERE asset_id = 'shop.clean';
"""
NEED_DATABASE = ("project rename a b",
                 "apply --yes", "dev", "materializer", "worker", "api", "token list", "token create x", "db status",
                 "db upgrade", "db stop", "db restored", "doctor", "table versions shop.clean", "simulate --since 1d",
                 "webhook list", "forget shop.raw", "alert list", "watch check shop.raw")  # fmt: skip
NEED_NOTHING = ("init", "validate", "completion")


@contextmanager
def served(store: Store, monkeypatch: pytest.MonkeyPatch, scope: str = "operate") -> Iterator[Server]:
    """Serve the API of a store, with tokens, and point the environment at nothing else."""
    digest = hashlib.sha256(SECRET.encode()).digest()
    store.tokens.create("ci", scope, digest, lifetime_ms=MINUTE_MS)
    server = Server(store, host="127.0.0.1", port=0, auth="token")
    server.start()
    server.heartbeat.stop()  # otherwise only this side would list it as a process
    try:
        with monkeypatch.context() as environment:
            environment.delenv("FRESHLINE_DATABASE_URL")
            environment.setenv("FRESHLINE_API_URL", f"{server.url}/")
            environment.setenv("FRESHLINE_API_TOKEN", SECRET)
            environment.setenv("FRESHLINE_LOG_LEVEL", "error")  # the server logs from this process too
            yield server
    finally:
        server.stop()


def settle(store: Store) -> None:
    """Do everything that services would do now."""
    while store.evaluation.fire_timers(10) or InboxConsumer(store).run_once() or Reconciler(store).run_once():
        pass
    store.events.stamp_positions(1000)


def work(store: Store, project: Path) -> None:
    """Finish runs as a worker would, until there are none."""
    claimant = Claimant(new_id(), "shop", load_project(project).code_hash, spark=False)
    while run := store.runs.claim(claimant):
        asset = "shop.clean" if run.slug == "make-clean" else "shop.daily"
        store.runs.publish(run, [StagedOutput(asset, "one", "d1", payload={"rows": 3})])
        settle(store)


def play(freshline: Freshline, store: Store) -> Iterator[tuple[str, Any]]:
    """Yield the output of each line of the script; times are removed and ids are numbered."""
    run = ""
    for line in SCRIPT:
        if line == "!settle":
            settle(store)
        elif line == "!worker":
            store.processes.register(new_id(), "worker", project="shop", code_hash="x", info={"slots": 2})
        elif line == "!watch":
            with store.database.transaction("test") as connection:
                connection.execute(WATCHED)
        elif line == "!recode":
            with store.database.transaction("test") as connection:
                connection.execute(RECODED)
        elif line == "!work":
            work(store, freshline.project)
        else:
            found = freshline.json(*line.replace("{run}", run).split(" "))
            for one in found if line.startswith("audit") else ():
                del one["who"], one["tokenId"]  # a user of the machine on one side, a token on the other
            run = found["id"] if line.startswith("run ") else run
            yield line, found


def masked(told: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the output with numbers for ids, in order of appearance, and without times."""
    seen: dict[str, str] = {}
    text = json.dumps(told, sort_keys=True)
    text = UUID.sub(lambda found: seen.setdefault(found[0], f"#{len(seen)}"), text)
    lines: list[tuple[str, Any]] = json.loads(TIME.sub("T", text))
    return lines


@pytest.fixture(autouse=True)
def days(project: Path) -> None:
    """Add a source with partitions to the project."""
    text = "assetId: shop.days\npartitioning: { time: day, start: 2025-12-28, end: 2026-01-05 }\n"
    (project / "sources" / "days.yaml").write_text(text)


@pytest.fixture
def other(module_database_url: str, applied: Freshline, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Yield the store of a second installation of the same project."""
    with monkeypatch.context() as environment:
        environment.setenv("FRESHLINE_DATABASE_URL", module_database_url)
        applied("apply", "--yes")
        with open_store(load()) as opened:
            yield opened


def test_every_operating_command_answers_the_same(
    applied: Freshline, store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same script on a database and through the API of another one: `--json` gives equal documents."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", store.database.url)
    direct = masked(list(play(applied, store)))
    with served(other, monkeypatch, scope="admin"):
        through = masked(list(play(applied, other)))
    for (line, expected), (_, found) in zip(direct, through, strict=True):
        assert found == expected, line


def test_every_command_is_decided_about() -> None:
    """Each is in the script, or says that it needs the database, or needs none."""
    named = {line.partition(" ")[0] for line in (*SCRIPT, *NEED_DATABASE, *NEED_NOTHING)}
    assert named - {"!recode", "!settle", "!watch", "!work", "!worker"} == set(COMMANDS)


def test_the_others_say_that_they_need_the_database(
    applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, with what to do; no embedded database appears by accident."""
    with served(store, monkeypatch):
        for line in NEED_DATABASE:
            told = applied(*line.split(" "), code=2).stderr
            assert "this command needs the database" in told, (line, told)
            assert "FRESHLINE_DATABASE_URL" in told
    assert not (applied.project / ".freshline" / "postgres").exists()


def test_a_table_is_told_about_without_its_data(
    applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show` tells rows and columns; `--sql` says what it would need; with the warehouse at hand it shows the data."""
    applied("report", "shop.raw")
    settle(store)
    run = store.runs.claim(Claimant(new_id(), "shop", load_project(applied.project).code_hash, spark=False))
    assert run is not None
    schema = {"fields": [{"name": "n", "type": "long"}]}
    staged = StagedOutput(
        "shop.clean", "one", "d1", location={"paths": ["x"], "format": "parquet", "files": {}}, schema=schema, rows=3
    )
    store.runs.publish(run, [staged])
    with served(store, monkeypatch):
        assert "n" in applied("show", "shop.clean").stdout
        assert applied.json("show", "shop.clean")["rows"] == 3
        assert "set FRESHLINE_WAREHOUSE" in applied("show", "shop.clean", "--sql", "SELECT 1", code=2).stderr


def test_words_for_people_are_the_same(
    applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those of mistakes: did-you-mean comes from the API. The token is in none of them."""
    applied("report", "shop.raw", "--version", "v1", "--key", "k")
    settle(store)
    work(store, applied.project)
    asked = [("status", 0), ("why shop.clean", 0), ("graph", 0), ("runs", 0), ("plan shop.raw", 0), ("events 1", 0),
             ("status shop.clen", 1), ("why shop.clen", 1), ("pause make-clen", 1), ("runs 4711", 2),
             ("logs abcdef", 1),
             ("report shop.raw --key k", 1), ("report shop.clean", 1),
             ("report --together shop.raw=v2 shop.rew=v2", 1), ("report --together shop.raw=v2", 2),
             ("expire shop.raw", 1), ("accept shop.raw", 1),
             ("accept shop.clean", 1), ("show shop.clean --version 99", 1)]  # fmt: skip

    def printed() -> list[tuple[str, str]]:
        results = [applied(*line.split(" "), code=code) for line, code in asked]
        return [(AGE.sub("AGE", one.stdout), one.stderr) for one in results]

    direct = printed()
    with served(store, monkeypatch):
        through = printed()
    assert through == direct
    assert SECRET not in "".join(out + err for out, err in through) + caplog.text


def test_followers_follow_through_the_api(applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events, decisions and runs: what a follower on the database is given, in the same order."""
    with served(store, monkeypatch), remote.connected(load()) as far:
        sides = [
            [
                EventFollower(reader, limit=5),
                DecisionFollower(reader, limit=5),
                RunFollower(reader, limit=5),
            ]
            for reader in (store.reader, far.reader)
        ]
        seen = [0, 0, 0]
        for number in range(3):
            applied("report", "shop.raw", "--version", f"v{number}")
            settle(store)
            for kind, (near, away) in enumerate(zip(*sides, strict=True)):
                expected = near.poll()
                assert away.poll() == expected
                seen[kind] += len(expected)
            work(store, applied.project)
        assert min(seen) >= 2


def test_a_listing_is_read_page_by_page(applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a page of the API, and exactly as many as were asked for."""
    monkeypatch.setattr(remote, "MAX_PAGE", 2)
    for number in range(7):
        applied("report", "shop.raw", "--version", f"v{number}")
    expected = applied.json("events", "--limit", "5")
    with served(store, monkeypatch):
        assert applied.json("events", "--limit", "5") == expected
        assert len(applied.json("events", "--limit", "1000")) > 7


class Strange(http.server.BaseHTTPRequestHandler):
    """Answers every request with the answer that its server holds."""

    def do_GET(self) -> None:
        status, headers, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the same

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def strange(freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Return a function that returns the output of `freshline status` when a server other than our API answers."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Strange)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("FRESHLINE_API_URL", f"http://127.0.0.1:{server.server_port}")

    def ask(status: int, body: bytes, code: int = 1, **headers: str) -> str:
        server.answer = (status, {name.replace("_", "-"): value for name, value in headers.items()}, body)  # type: ignore[attr-defined]
        return freshline("status", code=code).stderr

    yield ask
    server.shutdown()
    server.server_close()
    thread.join()


OURS = {"Freshline_Version": __version__}


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        (200, {}, b"<html>", "is not the API of Freshline"),
        (302, {"Location": "http://evil.example/"}, b"", "is not the API of Freshline"),
        (200, {"Freshline_Version": "9.1.0"}, b"{}", f"9.1.0, this command is {__version__} (install freshline 9.1.0)"),
        (200, OURS, b"<html>", "answered 200 with something that is not JSON"),
        (500, OURS, b'{"code": "internal", "detail": "something went wrong here"}', "something went wrong here [api]"),
        (503, OURS, b'{"code": "database", "detail": "the database is away"}', "the database is away [database]"),
        (502, OURS, b"[]", "the API answered 502 [api]"),
    ],
)  # fmt: skip
def test_strange_answers_are_told_in_a_sentence(
    strange: Callable[..., str], status: int, headers: dict[str, str], body: bytes, told: str
) -> None:
    """Whatever answers: one sentence, exit code 1, no traceback."""
    said = strange(status, body, **headers)
    assert told in said
    assert said.count("\n") == 1


def test_an_api_that_is_not_there_is_told(freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address and what to look at; a host that takes connections and says nothing too."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("FRESHLINE_API_URL", f"http://127.0.0.1:{port}")
    said = freshline("status", code=1).stderr
    assert f"the API at http://127.0.0.1:{port} cannot be reached" in said
    assert "is `freshline api` running there?" in said
    monkeypatch.setattr(wire, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("FRESHLINE_API_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "did not answer: timed out" in freshline("status", code=1).stderr
        said = freshline("pause", "make-clean", code=1).stderr
        assert "the change may have been made" in said


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (None, "this needs a token"),
        ("wrong", "the token is unknown, revoked or expired"),
        (SECRET, "this needs the scope 'operate'; the token 'ci' has 'read' [access]"),
    ],
)
def test_a_token_that_does_not_do_is_told(
    applied: Freshline, store: Store, monkeypatch: pytest.MonkeyPatch, token: str | None, told: str
) -> None:
    """None, a wrong one, and one whose scope is too small: exit code 1, and what to do."""
    with served(store, monkeypatch, scope="read"):
        if token is None:
            monkeypatch.delenv("FRESHLINE_API_TOKEN")
        else:
            monkeypatch.setenv("FRESHLINE_API_TOKEN", token)
        said = applied("pause", "make-clean", code=1).stderr
    assert told in said
    assert token == SECRET or "set FRESHLINE_API_TOKEN" in said


@pytest.mark.parametrize(
    "url", ["nowhere", "ftp://x", "http://user:canary@x", "http://", "http://x:y", "http://x/?a=b"]
)
def test_an_address_that_is_none_is_refused_without_repeating_it(
    freshline: Freshline, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """It may carry a password."""
    monkeypatch.setenv("FRESHLINE_API_URL", url)
    said = freshline("status", code=2).stderr
    assert "FRESHLINE_API_URL is not the address of an API; allowed is http://host" in said
    assert "canary" not in said


@pytest.mark.parametrize("token", ["canary two", "canary\nHost: evil", "canary…"])
def test_a_token_that_is_none_is_refused_without_repeating_it(
    freshline: Freshline, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """It would be no header."""
    monkeypatch.setenv("FRESHLINE_API_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FRESHLINE_API_TOKEN", token)
    said = freshline("status", code=2).stderr
    assert "FRESHLINE_API_TOKEN is not a token" in said
    assert "canary" not in said
