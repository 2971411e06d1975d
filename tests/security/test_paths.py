"""A report names a path; nothing outside of what its source allows is read or shown (docs/semantics.md#R3.1)."""

from __future__ import annotations

import json
import os
import posixpath
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import JobError, UsageError
from freshline.model.allowed_paths import AllowedPaths, base, default, prefix
from freshline.redis_bus.connection import RedisConnection
from freshline.redis_bus.keys import DEAD, INBOUND
from freshline.services.redis_consumer import RedisConsumer
from freshline.storage.real_paths import real_path
from tests.api.conftest import serving
from tests.redis_bus.server import Server
from tests.security.path_attacks import attacks
from tests.store_harness import Lab, laboratory, workflow

INSIDE = "/project/data"
ROOT = Path("/project")
CSV = {"assetId": "raw", "format": "csv", "path": "data"}
LEAST_TRIES = 200


def refused(allowed: AllowedPaths, path: object) -> bool:
    """Return whether a path is refused; what is accepted must be inside, by another calculation."""
    try:
        found = str(allowed.resolve(path))
    except UsageError:
        return True
    assert found == posixpath.normpath(found)
    assert (found + "/").startswith(f"{INSIDE}/"), f"{path!r} was accepted as {found!r}"
    return False


def test_no_spelling_leads_out_of_what_is_allowed() -> None:
    """Not by dots, slashes, schemes, encodings, patterns, control characters or length."""
    tries = list(attacks(INSIDE))
    for allowed in (default("/project", INSIDE), AllowedPaths("/project", (INSIDE,)), AllowedPaths(None, (INSIDE,))):
        accepted = [path for path in tries if not refused(allowed, path)]
        assert accepted == []
    print(f"{3 * len(tries)} tries")
    assert len(tries) >= LEAST_TRIES


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data", INSIDE),
        ("data/", INSIDE),
        ("./data//2024/a.csv", f"{INSIDE}/2024/a.csv"),
        (f"{INSIDE}/*.csv", f"{INSIDE}/*.csv"),
        (f"file://{INSIDE}/a b.csv", f"{INSIDE}/a b.csv"),
        (f"FILE:{INSIDE}/x", f"{INSIDE}/x"),
        (f"{INSIDE}/100%.csv", f"{INSIDE}/100%.csv"),
        (f"{INSIDE}/x.", f"{INSIDE}/x."),
        (f"{INSIDE}/...", f"{INSIDE}/..."),
        ("data/.hidden", f"{INSIDE}/.hidden"),
    ],
)
def test_what_is_below_the_path_of_a_source_is_allowed(path: str, found: str) -> None:
    """In every usual spelling; what is stored is absolute and plain."""
    assert str(default("/project", INSIDE).resolve(path)) == found


def test_urls_are_confined_to_bucket_and_directory() -> None:
    """Scheme, bucket and directory must be those of the prefix."""
    allowed = AllowedPaths("/project", ("s3a://bucket/in",))
    assert str(allowed.resolve("S3A://bucket/in//x/*.csv")) == "s3a://bucket/in/x/*.csv"
    for path in (
        *("s3://bucket/in/x", "s3a://other/in/x", "s3a://bucket/inside", "s3a://bucket/in/../x", "s3a:/bucket/in/x"),
        *("s3a://user@bucket/in/x", "s3a://bucket:80/in/x", "s3a://bucket/in/%2e%2e/x", "/bucket/in/x", "in/x"),
        *("s3a://bucket", "s3a:///in/x", "s3a://bucket/in/{x,../y}", "hdfs://bucket/in/x", "s3a://BUCKET/in/x"),
    ):
        with pytest.raises(UsageError, match=r"payload\.path"):
            allowed.resolve(path)


def test_without_a_path_the_project_is_allowed_except_what_is_hidden() -> None:
    """The private directory of the project and files such as .env stay unread."""
    allowed = default("/project", None)
    assert str(allowed.resolve("in/x.csv")) == "/project/in/x.csv"
    for path in (".env", "in/.git/config", "/project/.freshline/postgres", "./.env", "/etc/passwd"):
        with pytest.raises(UsageError, match="is not allowed"):
            allowed.resolve(path)


def test_a_pattern_in_a_declared_path_allows_the_directory_before_it() -> None:
    """Characters of patterns in the name of the project's directory do not count."""
    assert base("/p/data/2024-*/x.csv", "/p") == ("/p/data",)
    assert base("/[p]/data/x.csv", "/[p]") == ("/[p]/data/x.csv",)
    assert base("s3a://b/{x,y}/z", "/p") == ("s3a://b/",)
    assert prefix("../shared", "/p/q") == "/p/shared"
    assert prefix("file:/x/", "/p") == "/x"


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a store with a declared source, one with `allow`, one without a path, and one that is not declared."""
    more: dict[str, Any] = {"assetId": "more", "allow": ["in", "/srv/drop", "s3a://bucket/in"]}
    with laboratory(database_url) as lab:
        flows = workflow("b", "raw"), workflow("c", "more"), workflow("d", "bare"), workflow("e", "undeclared")
        lab.apply(*flows, sources=(CSV, more, "bare"), root=ROOT)
        yield lab


def test_a_report_with_a_path_that_is_not_allowed_stores_nothing(lab: Lab) -> None:
    """None of the attacks leaves a snapshot, an event or an audit entry, whatever the source declares."""
    before = lab.rows("SELECT count(*) AS n FROM events")
    tries = 0
    for path in attacks(INSIDE):
        for asset_id in ("raw", "undeclared"):
            tries += 1
            with pytest.raises(UsageError, match=r"payload\.path"):
                lab.report(asset_id, payload={"path": path})
    assert lab.rows("SELECT count(*) AS n FROM events") == before
    assert lab.rows("SELECT * FROM snapshots") == []
    assert lab.rows("SELECT * FROM audit WHERE what = 'report'") == []
    print(f"{tries} tries")
    assert tries >= LEAST_TRIES


def test_a_report_stores_the_plain_path(lab: Lab) -> None:
    """Relative to the project; the format and the options are those of the source, the payload stays as it was sent."""
    lab.report("raw", payload={"path": "data//x.csv"})
    lab.report("more", payload={"path": "s3a://bucket/in/x"})
    lab.report("bare", payload={"path": "x"})
    lab.report("undeclared", payload={"other": "/etc/passwd"})
    found = {row["asset_id"]: row for row in lab.rows("SELECT asset_id, location, payload FROM snapshots")}
    assert found["raw"]["location"] == {"format": "csv", "path": "/project/data/x.csv"}
    assert found["raw"]["payload"] == {"path": "data//x.csv"}
    assert found["more"]["location"] == {"format": "parquet", "path": "s3a://bucket/in/x"}
    assert found["bare"]["location"]["path"] == "/project/x"
    assert found["undeclared"]["location"] is None


def test_the_error_says_what_to_declare(lab: Lab) -> None:
    """For a source without a declaration, and for one that allows other paths."""
    with pytest.raises(UsageError, match=r"not a declared source.*declare it in sources/ with `assetId: undeclared`"):
        lab.report("undeclared", payload={"path": "x"})
    with pytest.raises(
        UsageError, match=r"at or below /project/in, /srv/drop, s3a://bucket/in \('allow' of the source"
    ):
        lab.report("more", payload={"path": "/etc/passwd"})


def test_a_declaration_of_0_1_has_the_default(lab: Lab) -> None:
    """Its own path; a relative path needs the project's directory, which the next apply stores."""
    lab.rows("UPDATE assets SET declaration = declaration - 'allowed' RETURNING id")
    lab.report("raw", payload={"path": f"{INSIDE}/x.csv"})
    for asset_id, path in (("raw", "/etc/passwd"), ("bare", "/etc/passwd"), ("more", "s3a://bucket/in/x")):
        with pytest.raises(UsageError, match="is not allowed"):
            lab.report(asset_id, payload={"path": path})
    with pytest.raises(UsageError, match="freshline apply"):
        lab.report("raw", payload={"path": "data/x.csv"})


def test_over_http_it_is_a_problem(lab: Lab) -> None:
    """With the status 422, and the code of wrong usage."""
    with serving(lab) as api:
        for path in ("/etc/passwd", "hdfs://host/x", "data/../../etc/passwd", 7, "data/\x00"):
            answer = api.post("/assets/raw/produced", {"payload": {"path": path}}, expect=422)
            assert (answer["code"], answer["status"]) == ("usage", 422)
    assert lab.rows("SELECT * FROM snapshots") == []


def test_a_message_with_such_a_path_is_set_aside(lab: Lab) -> None:
    """On the stream of refused messages, with the reason; the next message is taken."""
    with tempfile.TemporaryDirectory(prefix="freshline-") as directory:
        server = Server(Path(directory))
        server.start()
        bus = RedisConnection(server.url, timeout_s=1)
        try:
            consumer = RedisConsumer(lab.store, bus, wait_ms=1)
            consumer.run_once()
            for path in ("/etc/passwd", "hdfs://host/x", "data/../x", "data/x.csv"):
                server.client.xadd(INBOUND, {"assetId": "raw", "payload": json.dumps({"path": path})})
            consumer.run_once()
            reasons = [fields[b"reason"] for _, fields in server.client.xrange(DEAD)]
        finally:
            bus.close()
            server.close()
    assert [b"payload.path" in reason for reason in reasons] == [True] * 3
    assert [row["location"]["path"] for row in lab.rows("SELECT location FROM snapshots")] == ["/project/data/x.csv"]


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """Return a directory with an allowed `in`, a secret outside of it, and links in and out."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside / "sub", inside / "links", outside):
        directory.mkdir(parents=True)
    (inside / "a.csv").write_text("k\n1\n")
    (inside / "sub" / "b.csv").write_text("k\n2\n")
    (outside / "secret.csv").write_text("k\n3\n")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    (inside / "good.csv").symlink_to(inside / "a.csv")
    (inside / "links" / "deep").symlink_to(outside)
    (inside / "dots").symlink_to("../out")
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "twice.csv").symlink_to(inside / "link.csv")
    (tmp_path / "door").symlink_to(inside)
    return tmp_path


ESCAPES = [
    *("in/link.csv", "in/twice.csv", "in/dots", "in/dots/secret.csv", "in/links/deep", "in/links/deep/secret.csv"),
    *("in/links", "in", "in/*.csv", "in/l*", "in/[l]ink.csv", "in/?ink.csv", "in/*/secret.csv", "in/*/*/*", "in/d*/*"),
    *("in/links/*", "in/links/d[e]*/secret.csv", "in/[!a]*", "in/[a]*.csv", "out/secret.csv", "in/../out/secret.csv"),
]


@pytest.mark.parametrize("path", ESCAPES)
def test_links_do_not_lead_out(places: Path, path: str) -> None:
    """Neither the named file, nor one that a pattern matches, nor one inside of a named directory."""
    allowed = AllowedPaths(str(places), (f"{places}/in",))
    with pytest.raises(JobError, match="source 'raw' is not read"):
        real_path("raw", path, allowed)


def test_links_inside_of_what_is_allowed_are_followed(places: Path) -> None:
    """Also when the allowed directory itself is named by a link, or contains one to another allowed directory."""
    allowed = AllowedPaths(str(places), (f"{places}/door",))
    assert real_path("raw", "door/a.csv", allowed) == f"{places}/in/a.csv"
    assert real_path("raw", "door/good.csv", allowed) == f"{places}/in/a.csv"
    assert real_path("raw", "door/sub", allowed) == f"{places}/in/sub"
    assert real_path("raw", "door/sub/*.csv", allowed) == f"{places}/door/sub/*.csv"
    assert real_path("raw", "door/missing.csv", allowed) == f"{places}/in/missing.csv"
    both = AllowedPaths(str(places), (f"{places}/in", f"{places}/out"))
    assert real_path("raw", "in/link.csv", both) == f"{places}/out/secret.csv"
    assert real_path("raw", "in", both) == f"{places}/in"


def test_a_link_cannot_reach_what_is_hidden(tmp_path: Path) -> None:
    """In a project without declared paths the private files stay unread, by any name."""
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "open.csv").symlink_to(tmp_path / ".env")
    with pytest.raises(JobError, match="symbolic link"):
        real_path("raw", "open.csv", default(os.path.realpath(tmp_path), None))
