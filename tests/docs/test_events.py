"""Every event is a CloudEvent 1.0 on every surface, matches docs/events.md, and fits the published schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime

import pytest

from freshline.api.event_schemas import EVENT_DATA, schema
from freshline.api.stream import message as server_sent
from freshline.model.backfill import BackfillRequest
from freshline.model.documents.event import Event
from freshline.model.enums import EventType
from freshline.model.events import cloud_event
from freshline.services.redis_publisher import message as redis_message
from freshline.services.webhook_sender import signed
from tests.docs.pages import ROOT, Page, code
from tests.store.transaction_cases import Scene, accept_code, outlived, proposed, recoded, tables
from tests.store_harness import Lab, laboratory, workflow
from tests.webhooks.schemas import violations

HOUR = 3_600_000
PAGE = Page("docs/events.md")
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
REQUIRED = {"id", "source", "specversion", "type"}


def happen(lab: Lab) -> None:
    """Cause an event of every type."""
    fresh = {"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}
    backoff = {"baseMs": 1000, "maxMs": 1000, "budget": 2}
    lab.apply(workflow("b", "a", freshness=fresh, backoff=backoff), workflow("c", "a"))
    lab.report("a", "1", payload={"rows": 1})
    lab.work_with(tables)
    lab.advance(hours=3)
    lab.work_with(tables)
    for version in ("2", "3", "4"):
        lab.report("a", version)
        lab.settle()
        while run := lab.claim():
            lab.fail(run)
        lab.advance(minutes=5)
        lab.settle()
    lab.store.operations.reset("b")
    lab.store.operations.cancel(lab.store.operations.request_run("b"))
    lab.report("a", "5")
    lab.settle()
    lab.store.operations.pause("b")
    lab.store.operations.resume("b")
    lab.work_with(tables)
    lab.store.tables.rollback("b", 1)
    lab.apply(workflow("b", "a", freshness=fresh))
    lab.store.backfills.cancel(lab.store.backfills.create(BackfillRequest("b")))
    lab.store.backfills.create(BackfillRequest("b", downstream=True))
    lab.work_with(tables)
    lab.apply(workflow("b", "a"), workflow("d", "b"))
    lab.store.backfills.create(BackfillRequest("b", downstream=True))
    lab.work_with(tables)
    proposed(Scene(lab))
    outlived(Scene(lab))
    lab.store.retirement.retire_partitions()
    recoded(Scene(lab))
    accept_code(Scene(lab))
    lab.store.events.stamp_positions(1000)


@pytest.fixture(scope="module")
def events(module_database_url: str) -> Iterator[list[Event]]:
    """Return all events as readers get them."""
    with laboratory(module_database_url) as lab:
        happen(lab)
        yield lab.store.reader.events(limit=1000)


def test_every_type_of_event_happens(events: list[Event]) -> None:
    """Or the tests below would prove nothing."""
    assert {one["type"] for one in events} == {str(one) for one in EventType} == {str(one) for one in EVENT_DATA}


def test_events_keep_to_the_rules_of_cloudevents(events: list[Event]) -> None:
    """CloudEvents 1.0: required attributes, names, types, RFC 3339, and `source` with `id` unique."""
    for one in events:
        assert one.keys() >= REQUIRED
        assert one["specversion"] == "1.0"
        for name, value in one.items():
            assert re.fullmatch(r"[a-z0-9]{1,20}", name), "lower-case letters and digits, not more than 20"
            if name == "data":
                continue
            assert isinstance(value, str | int), "no attribute is an object or an array"
            assert not isinstance(value, str) or (value and value.isprintable())
            assert not isinstance(value, int) or -(2**31) <= value < 2**31
        assert RFC3339.fullmatch(one["time"])
        assert re.fullmatch(r"[A-Za-z0-9/._~-]+", one["source"]), "a URI-reference"
        assert re.fullmatch(r"[a-z]+/[a-z]+", one["datacontenttype"]), "RFC 2046"
    assert len({(one["source"], one["id"]) for one in events}) == len(events)


def test_every_surface_tells_the_same(events: list[Event]) -> None:
    """HTTP, server-sent events, webhooks and Redis have one function in common."""
    for one in events:
        row = {**one, "time": datetime.fromisoformat(one["time"])}
        assert cloud_event(row) == one
        assert json.loads(signed(b"x", row)[0]) == one
        assert json.loads(server_sent(one).partition("data: ")[2]) == one
        text = redis_message({**row, "data": json.dumps(one["data"])})
        assert {**text, "position": int(text["position"]), "data": json.loads(text["data"])} == one


def test_events_say_what_the_models_say(events: list[Event]) -> None:
    """No field is missing, none is more, and all have the described type."""
    for one in events:
        EVENT_DATA[EventType(one["type"])].model_validate(one["data"])


def test_events_fit_the_published_schema(events: list[Event]) -> None:
    """docs/events.schema.json is current and takes every event; it refuses what lacks something."""
    published = json.loads((ROOT / "docs" / "events.schema.json").read_text(encoding="utf-8"))
    assert published == schema()
    for one in events:
        assert violations(one, published) == [], one
    assert violations({name: value for name, value in events[0].items() if name != "source"}, published)
    assert violations({**events[0], "type": "asset.unknown"}, published)


def test_the_page_names_every_event_and_its_fields(events: list[Event]) -> None:
    """Each with an example that the schema takes."""
    examples = {one["type"]: one for one in map(json.loads, PAGE.blocks("json"))}
    for type_, fact in EVENT_DATA.items():
        fields = [code(row[0]) for row in PAGE.table(type_)]
        assert fields == [field.alias for field in fact.model_fields.values()]
        assert violations(examples[type_], schema()) == []
    for one in events:
        assert one["data"].keys() <= {code(row[0]) for row in PAGE.table(one["type"])}
