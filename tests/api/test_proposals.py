"""Proposals over HTTP: listed, shown with their cost, approved and denied with their revision."""

from __future__ import annotations

from tests.api.conftest import Api
from tests.scenarios.test_partitions import divided

DAYS = {"time": "day", "start": "2025-12-30"}
KEYS = ("2025-12-30", "2025-12-31", "2026-01-01", "2026-01-02")


def flood(api: Api) -> None:
    """Let more old partitions be missing than may run by themselves."""
    auto = {"onUpstreamUpdate": True, "partitions": {"limit": 2}}
    source = {"assetId": "raw", "partitioning": DAYS}
    api.lab.apply(divided("daily", {"raw": None}, DAYS, auto=auto), name="days", sources=(source,))
    for key in KEYS:
        api.lab.report("raw", "v1", partition_key=key)
    api.lab.settle()


def test_a_proposal_is_answered_with_its_revision(api: Api) -> None:
    """Without one the body is refused, and with another one the answer is 409."""
    flood(api)
    [found] = api.get("/backfills", status="proposed")["items"]
    assert (found["assetId"], found["revision"]) == ("daily", 1)
    assert found["reasons"] == [{"workflowSlug": "daily", "missing": True, "partitions": 4}]
    shown = api.get(f"/backfills/{found['id']}")
    assert shown["cost"]["partitions"] == 4
    api.post(f"/backfills/{found['id']}/approve", expect=422)
    error = api.post(f"/backfills/{found['id']}/approve", {"revision": 2}, expect=409)
    assert "it does not exist yet" in str(error)
    api.post(f"/backfills/{found['id']}/deny", {"revision": 2}, expect=409)
    assert api.post(f"/backfills/{found['id']}/approve", {"revision": 1}, expect=202)["status"] == "active"
    assert api.get(f"/backfills/{found['id']}")["cost"] is None
    api.post(f"/backfills/{found['id']}/deny", {"revision": 1}, expect=409)


def test_a_denied_proposal_is_no_longer_open(api: Api) -> None:
    """Its event has the revision and the reasons."""
    flood(api)
    [found] = api.get("/backfills", status="proposed")["items"]
    assert api.post(f"/backfills/{found['id']}/deny", {"revision": 1})["status"] == "denied"
    assert api.get("/backfills", status="proposed")["items"] == []
    [event] = api.get("/events", type="backfill.proposed")["items"]
    assert (event["data"]["revision"], event["data"]["reasons"]) == (1, found["reasons"])
