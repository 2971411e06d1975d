"""The routes of the API, over real HTTP."""

from __future__ import annotations

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from freshline import __version__
from freshline.definitions.alerts import read_rule
from freshline.errors import ConflictError
from freshline.model.backfill import BackfillRequest
from freshline.store.read.session import ReadSession
from freshline.store.webhooks.subscriptions import Webhook
from tests.api.conftest import HOUR, Api, serving
from tests.api.documents import operations, undocumented

WATCHED = """
INSERT INTO watches (asset_id, kind, mode, spec, every_ms, timeout_ms, next_at)
VALUES ('b', 'files', 'append', '{"files": "drop/*.csv"}', 30000, 30000, now()) ON CONFLICT DO NOTHING RETURNING 1
"""


def names(api: Api) -> dict[str, str]:
    """Return an existing value for every path parameter."""
    run = api.lab.runs("b")[0]["id"]
    event = api.lab.events("asset.produced")[0]["id"]
    with suppress(ConflictError):
        api.lab.store.webhooks.add(Webhook("hook", "https://hooks.example/?token=canary-4711", b"canary-4711" * 3))
    with suppress(ConflictError):
        api.lab.store.alerts.add(read_rule("hook", {"on": "failing", "to": "json://canary-4711@h/"}))
    with suppress(ConflictError):
        api.lab.store.tokens.create("hook", "read", bytes(32), lifetime_ms=HOUR)
    api.lab.rows(WATCHED)
    backfill = api.lab.store.backfills.create(BackfillRequest("b"), key="names")
    found = {"slug": "b", "assetId": "b", "runId": str(run), "eventId": str(event), "name": "hook", "number": "1"}
    return {**found, "backfillId": backfill}


def test_about_answers_with_the_version_of_the_package(api: Api) -> None:
    """Clients compare it with their own."""
    assert api.get("/about")["version"] == __version__


def test_every_route_to_look_at_answers_with_what_is_documented(api: Api) -> None:
    """Each GET of the OpenAPI document answers 200, and no answer has a field that the document does not name."""
    document = api.get("/openapi.json")
    looked = [one for one in operations(document) if one.method == "get" and one.scope != "admin"]
    assert len(looked) >= 18
    for one in looked:
        if one.path.endswith("/rows"):
            continue  # no asset here has a table: test_rows
        answer = api.client.get(api.server.url + one.url(names(api)))
        assert answer.status_code == 200, f"{one.path}: {answer.text}"
        if one.path.endswith("/metrics"):
            continue
        schema = one.described["responses"]["200"]["content"]["application/json"]["schema"]
        assert list(undocumented(answer.json(), schema, document)) == [], one.path


def test_an_automatic_run_is_shown_with_its_decision_and_its_events(api: Api) -> None:
    """Its trigger is `auto-materialize`; its decision names it, and so do its events."""
    (run,) = api.get("/runs", workflow="b")["items"]
    assert run["trigger"]["type"] == "auto-materialize"
    assert run["inputs"] == [{"assetId": "a", "partitionKey": "", "dataVersion": "1", "version": 1}]
    decisions = api.get("/decisions", workflow="b", outcome="run")["items"]
    assert [one["id"] for one in decisions if one["runId"] == run["id"]] == [run["decisionId"]]
    told = api.get("/events", type="workflow.run", subject="b")["items"]
    assert {one["type"] for one in told if one["data"]["runId"] == run["id"]} >= {
        "workflow.run.queued",
        "workflow.run.succeeded",
    }


def test_declarations_are_shown_as_declared(api: Api) -> None:
    """`freshness` and `autoMaterialize`, in the asset, in the graph, and in the definition."""
    freshness, auto = {"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}, {"onUpstreamUpdate": True}
    shown = api.get("/assets/b")
    assert (shown["freshness"], shown["autoMaterialize"], shown["consumedBy"]) == (freshness, auto, ["c"])
    (node,) = [one for one in api.get("/assets/graph")["assets"] if one["assetId"] == "b"]
    assert (node["freshness"], node["autoMaterialize"]) == (freshness, auto)
    (declared,) = api.get("/workflows/b")["definition"]["steps"][0]["produces"]
    assert (declared["freshness"], declared["autoMaterialize"]) == (freshness, auto)


def test_a_definition_has_a_tag_until_it_changes(api: Api) -> None:
    """Who has it is told so in a line; a new version has another tag."""
    first = api.client.get("/workflows/b")
    tag = first.headers["etag"]
    again = api.client.get("/workflows/b", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    api.lab.apply(*({"slug": one, "steps": api.get(f"/workflows/{one}")["definition"]["steps"]} for one in "c"))
    changed = api.client.get("/workflows/b", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.json()["retiredAt"] is not None


def test_policy_status_tells_the_next_refresh_and_why(api: Api) -> None:
    """The last automatic run, the expiry to come, the age against `maxAge`; then a cooldown and its retry."""
    api.lab.advance(minutes=30)
    found = api.get("/workflows/b/auto-materialize")
    run = api.get("/runs", workflow="b")["items"][0]
    assert found["lastAutoRun"]["runId"] == run["id"]
    assert (found["inFlight"], found["hold"], found["breaker"]["state"]) == (None, None, "closed")
    assert (found["nextRefresh"]["reason"], found["nextRefresh"]["assetId"]) == ("ttl", "b")
    assert found["assets"][0]["lag"] == {"ageMs": HOUR // 2, "maxAgeMs": 2 * HOUR, "overdue": False}
    api.lab.report("a", "2")
    api.lab.settle()
    assert api.get("/workflows/b/auto-materialize")["inFlight"]["status"] == "queued"
    api.lab.fail(api.lab.start())
    api.lab.settle()
    failed = api.get("/workflows/b/auto-materialize")
    assert failed["cooldown"]["failures"] == 1
    assert failed["nextRefresh"] == {"at": failed["cooldown"]["nextEligibleAt"], "reason": "retry", "assetId": "b"}
    assert failed["hold"]["reason"] == "cooling-down"
    api.lab.advance(hours=3)
    assert api.get("/workflows/b/auto-materialize")["assets"][0]["lag"]["overdue"] is True


@pytest.mark.parametrize("path", ["/runs", "/events", "/decisions", "/assets", "/workflows", "/assets/a/history"])
def test_pages_follow_each_other_without_gap_or_repetition(api: Api, path: str) -> None:
    """One entry a page gives the same as all at once."""
    for number in range(2, 5):
        api.lab.report("a", str(number))
        api.lab.work()
    whole = api.get(path, limit=1000)
    assert whole["next"] is None
    seen: list[Any] = []
    after: str | None = None
    while True:
        part = api.client.get(path, params={"limit": 1, **({"after": after} if after else {})}).json()
        seen += part["items"]
        after = part["next"]
        if after is None:
            break
    assert seen == whole["items"]
    assert len(seen) >= 2


def test_runs_are_filtered(api: Api) -> None:
    """By status, workflow, asset, type of trigger and time."""
    asked = api.post("/workflows/c/run", expect=202)
    assert [one["id"] for one in api.get("/runs", trigger="manual")["items"]] == [asked["id"]]
    assert [one["id"] for one in api.get("/runs", status="queued")["items"]] == [asked["id"]]
    assert len(api.get("/runs", asset="c")["items"]) == 2
    assert api.get("/runs", asset="a")["items"] == []
    now = api.lab.now.isoformat()
    api.lab.advance(hours=1)
    assert len(api.get("/runs", since=now)["items"]) == 3
    assert api.get("/runs", until=now)["items"] == []
    assert api.get("/runs", since=api.lab.now.isoformat())["items"] == []
    assert api.get("/runs", workflow="b", asset="b", expect=422)["code"] == "invalid-request"


def test_deliveries_are_listed_and_skipped(api: Api) -> None:
    """Each report of an append source is one; the answer says its number, and the list who skipped it."""
    api.lab.apply(*api.lab.applied.values(), sources=({"assetId": "files", "mode": "append"},))
    assert [api.post("/assets/files/produced", {"dataVersion": one}, expect=202)["delivery"] for one in "xy"] == [1, 2]
    skipped = api.post("/assets/files/deliveries/1/skip", {"reason": "damaged"}, expect=202)
    assert (skipped["dataVersion"], skipped["skipped"]["reason"]) == ("x", "damaged")
    page = api.get("/assets/files/deliveries", limit=1)
    assert ([one["number"] for one in page["items"]], page["next"]) == ([2], "2")
    assert [one["number"] for one in api.get("/assets/files/deliveries", after=2)["items"]] == [1]


def test_reports_that_belong_together(api: Api) -> None:
    """All are stored, or none; the key of the header is that of each (docs/semantics.md#R4.7)."""
    api.lab.apply(*api.lab.applied.values(), sources=("other",))
    both = {"reports": [{"assetId": "a", "dataVersion": "2"}, {"assetId": "other", "payload": {"rows": 7}}]}
    first = api.post("/reports", both, expect=202, Idempotency_Key="k1")
    assert [(one["assetId"], one["changed"]) for one in first["reports"]] == [("a", True), ("other", True)]
    event = api.get(f"/events/{first['reports'][0]['eventId']}")
    assert event["data"]["group"] == {"id": first["groupId"], "members": ["a", "other"]}
    again = api.post("/reports", both, expect=202, Idempotency_Key="k1")
    assert (again["duplicate"], again["groupId"]) == (True, None)
    half = {"reports": [{"assetId": "a", "dataVersion": "3"}, {"assetId": "b"}]}
    assert api.post("/reports", half, expect=409)["code"] == "conflict"
    assert api.post("/reports", {"reports": both["reports"][:1]}, expect=422)["code"] == "usage"
    assert api.get("/assets/a")["dataVersion"] == "2"


def test_the_outside_reports_a_source(api: Api) -> None:
    """A report starts a wave; its key makes it count once; what a workflow produces is refused.

    See docs/semantics.md#R3.3.
    """
    body = {"dataVersion": "2", "payload": {"rows": 7}}
    first = api.post("/assets/a/produced", body, expect=202, Idempotency_Key="k1")
    again = api.post("/assets/a/produced", body, expect=202, Idempotency_Key="k1")
    assert (first["changed"], first["duplicate"], again["duplicate"]) == (True, False, True)
    assert first["eventId"] == again["eventId"]
    assert api.lab.work() == ["b", "c"]
    other = {"dataVersion": "3", "payload": {"path": "x.parquet"}}
    assert api.post("/assets/a/produced", other, expect=409, Idempotency_Key="k1")["code"] == "key-reused"
    assert api.lab.work() == []
    refused = api.post("/assets/b/produced", expect=409)
    assert (refused["code"], refused["status"]) == ("conflict", 409)
    assert api.post("/assets/a/produced", {"key": "x"}, expect=422, Idempotency_Key="y")["code"] == "two-keys"


KEY = {"Idempotency-Key": "once"}


def at_once(api: Api, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers to 200 equal requests with one key, sent concurrently by two clients to two processes."""
    begin = threading.Barrier(40)

    def ask(client: httpx.Client) -> list[dict[str, Any]]:
        begin.wait(30)
        answers = [client.post(path, json=body, headers=KEY) for _ in range(5)]
        assert {one.status_code for one in answers} == {202}, [one.text for one in answers]
        return [one.json() for one in answers]

    with serving(api.lab) as other, ThreadPoolExecutor(40) as pool:
        asked = pool.map(ask, [api.client, other.client] * 20)
        return [one for told in asked for one in told]


def test_one_key_has_one_effect_however_many_post_it(api: Api) -> None:
    """Two clients post the same key 100 times each at once: one run, and everybody is told its id."""
    told = at_once(api, "/workflows/b/run", {"parameters": {"n": 1}})
    assert len(told) == 200
    assert {one["id"] for one in told} == {run["id"] for run in api.get("/runs", trigger="manual")["items"]}
    other = api.post("/workflows/b/run", {"parameters": {"n": 2}}, expect=409, Idempotency_Key="once")
    assert other["code"] == "key-reused"
    assert api.post("/workflows/c/run", expect=409, Idempotency_Key="once")["code"] == "key-reused"


def test_a_request_builds_no_part_of_the_application(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that build routes at once undo each other's filters of warnings: they are built before any request."""
    built: list[object] = []
    monkeypatch.setattr("fastapi._compat.v2.TypeAdapter", lambda *values, **_: built.append(values))
    api.get("/runs", limit=1)
    api.get("/openapi.json")
    assert built == []


def test_one_report_has_one_effect_however_many_send_it(api: Api) -> None:
    """The same for a report: one new version, one event, and one of them was the first."""
    before = api.get("/assets/a")["version"]
    told = at_once(api, "/assets/a/produced", {"dataVersion": "2"})
    assert len({one["eventId"] for one in told}) == 1
    assert sum(not one["duplicate"] for one in told) == 1
    assert api.get("/assets/a")["version"] == before + 1


def test_a_hand_on_a_workflow(api: Api) -> None:
    """Pause, resume, reset, expire and cancel do what the commands do, and answer with how it stands."""
    until = api.lab.later(hours=1).isoformat()
    assert api.post("/workflows/b/pause", {"until": until})["paused"]["until"] is not None
    assert api.post("/workflows/b/resume")["paused"] is False
    api.lab.settle()
    api.post("/assets/b/expire", expect=202)
    assert api.post("/assets/a/expire", expect=409)["code"] == "conflict"
    assert "nothing needs to be accepted" in api.post("/assets/b/accept", expect=409)["detail"]
    api.lab.store.evaluation.fire_timers(10)
    api.lab.settle()
    (run,) = api.get("/runs", status="queued")["items"]
    assert run["trigger"]["reason"] == "expired"
    ended = api.post(f"/runs/{run['id']}/cancel", {"reason": "not now"}, expect=202)
    assert (ended["status"], ended["cancelReason"]) == ("canceled", "not now")
    assert api.post("/workflows/b/reset")["cooldown"]["failures"] == 0


def test_the_graph_costs_the_same_number_of_statements_whatever_its_size(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one per workflow."""
    asked: list[str] = []
    rows = ReadSession.rows

    def counting(self: ReadSession, name: str, /, **more: Any) -> Any:
        asked.append(name)
        return rows(self, name, **more)

    monkeypatch.setattr(ReadSession, "rows", counting)
    api.get("/assets/graph")
    assert asked == ["graph_assets", "edges"]


def test_an_answer_waits_for_no_acknowledgement(api: Api) -> None:
    """On a connection that is kept: headers and body are two packets, and the second does not wait 40 ms."""
    host, port = api.server.address
    connection = http.client.HTTPConnection(host, port, timeout=30)
    took = []
    for _ in range(60):
        began = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        took.append(time.perf_counter() - began)
    connection.close()
    assert sorted(took[30:])[10] < 0.03  # TCP acknowledges the first ones at once in any case


def test_why_answers_for_a_time_in_the_past(api: Api) -> None:
    """The first decision before `until` is the one that counted then."""
    then = api.lab.now.isoformat()
    api.lab.advance(minutes=5)
    api.lab.store.operations.pause("b", None)
    api.lab.report("a", "2")
    api.lab.settle()
    now = api.lab.later(seconds=1).isoformat()
    assert [one["reason"] for one in api.get("/assets/b/why", limit=1)["items"]] == ["paused"]
    assert [one["reason"] for one in api.get("/assets/b/why", limit=1, until=now)["items"]] == ["paused"]
    past = api.get("/assets/b/why", until=api.lab.later(minutes=-1).isoformat())["items"]
    assert past
    assert "paused" not in {one["reason"] for one in past}
    assert api.get("/assets/b/why", until=then)["items"] == []
    assert [one["reason"] for one in api.get("/assets/b/why", since=api.lab.now.isoformat())["items"]] == ["paused"]
    api.get("/assets/b/why", until="yesterday", expect=422)


def test_the_history_of_an_asset_says_what_made_each_version(api: Api) -> None:
    """Its run, whether the data is other, its columns and its checks."""
    [found] = api.get("/assets/b/history")["items"]
    assert found["runId"] == api.get("/runs", workflow="b")["items"][0]["id"]
    assert (found["changed"], found["version"], found["head"]) == (True, 1, True)
    assert {"schema", "checks", "difference", "inputs", "sources"} <= found.keys()
