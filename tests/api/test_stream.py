"""The event stream: no event is missed or doubled, wherever a client is disconnected."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx
import pytest

from freshline.api import stream
from tests.api.conftest import Api, serving
from tests.store_harness import Lab, laboratory

STREAM = {"Accept": stream.MEDIA}


@pytest.fixture
def quick(database_url: str) -> Iterator[Api]:
    """Yield the API of a lab that polls for new events often."""
    with laboratory(database_url, poll_ms=20) as lab, serving(lab) as api:
        lab.apply(sources=tuple("ab"))
        yield api


def add_events(lab: Lab, count: int) -> None:
    """Add this number of events, with positions."""
    for number in range(count):
        lab.report("ab"[number % 2])
    while lab.store.events.stamp_positions(1000):
        pass


def messages(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream; check the form of each."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
            continue
        if "data" in fields:
            event = json.loads(fields["data"])
            assert (fields["id"], fields["event"]) == (str(event["position"]), event["type"])
            yield event
        fields = {}


def test_a_consumer_that_is_killed_ten_times_misses_nothing(quick: Api) -> None:
    """It goes on after the last id that it has: all events, each once, in the order of their positions."""
    chance = random.Random(7)  # noqa: S311 - not a secret
    seen: list[dict[str, Any]] = []
    last = "0"
    for _ in range(11):
        add_events(quick.lab, 20)
        wanted = chance.randint(1, 20)
        with quick.client.stream("GET", "/events", headers={**STREAM, "Last-Event-ID": last}) as answer:
            assert answer.headers["content-type"].startswith(stream.MEDIA)
            for event in islice(messages(answer), wanted):
                seen.append(event)
                last = str(event["position"])
    rest = quick.lab.one("SELECT count(*) FROM events WHERE position > %s", int(last))
    with quick.client.stream("GET", "/events", headers={**STREAM, "Last-Event-ID": last}) as answer:
        seen += islice(messages(answer), rest)
    whole = quick.get("/events", limit=1000)["items"]
    assert sorted(one["id"] for one in seen) == sorted(one["id"] for one in whole)
    assert [one["position"] for one in seen] == sorted({one["position"] for one in whole})


def test_a_stream_begins_now_and_takes_the_filters_of_the_listing(quick: Api) -> None:
    """Old events are not told again, and only what was asked for is."""
    add_events(quick.lab, 6)
    params = {"type": "asset", "subject": "b"}
    with quick.client.stream("GET", "/events", headers=STREAM, params=params) as answer:
        told = messages(answer)
        lines = answer.headers["cache-control"]
        add_events(quick.lab, 4)
        assert [next(told)["data"]["dataVersion"] for _ in range(2)] == ["seq:4", "seq:5"]
    assert lines == "no-store"


def test_a_stream_ends_with_the_server(quick: Api) -> None:
    """Who stops the process does not wait for those who listen."""
    with quick.client.stream("GET", "/events", headers=STREAM) as answer:
        quick.server.stop()
        assert list(messages(answer)) == []


def test_a_stream_ends_after_a_while_and_gives_its_place_back(quick: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a revoked token is noticed; however many come one after another, there is place for the next."""
    monkeypatch.setattr(stream, "MAX_STREAM_S", 0.0)
    for _ in range(stream.MAX_STREAMS + 5):
        assert quick.client.get("/events", headers=STREAM).text == f"retry: {stream.RETRY_MS}\n\n"
