"""docs/api.md: every curl command works as written, and the tables match the API."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from freshline.api import PREFIX
from freshline.api.app import document
from freshline.api.models.fields import DESCRIPTIONS
from tests.api.conftest import HOUR, serving
from tests.api.documents import operations
from tests.docs.pages import ROOT, Page, code, codes
from tests.store_harness import laboratory, workflow

PAGE = Page("docs/api.md")
SHOP = workflow("shop-total", "shop.orders", freshness={"ttlMs": HOUR, "maxAgeMs": 2 * HOUR}, outputs=["shop.total"])
ADDRESS = "http://127.0.0.1:8080"


def test_every_curl_works_as_written(database_url: str) -> None:
    """In the order of the page; each answer is what was asked for and no problem."""
    commands = [line for line in PAGE.shell() if line.startswith("curl ") and "event-stream" not in line]
    assert len(commands) >= 9
    with laboratory(database_url) as lab:
        lab.apply(SHOP, sources=("shop.orders",))
        with serving(lab) as api:
            for command in commands:
                typed = command.replace(ADDRESS, api.server.url)
                done = subprocess.run(["sh", "-c", typed], capture_output=True, text=True, check=True, timeout=60)
                answer = json.loads(done.stdout)
                assert "code" not in answer, (command, answer)
                assert answer.get("items") != [], (command, answer)
                lab.work()


def test_the_stream_of_the_page_tells_what_happened(database_url: str) -> None:
    """From the first event on, each with its id, its type and its data."""
    (command,) = [line for line in PAGE.shell() if "event-stream" in line]
    with laboratory(database_url, poll_ms=20) as lab, serving(lab) as api:
        lab.apply(SHOP, sources=("shop.orders",))
        lab.report("shop.orders", "1")
        lab.store.events.stamp_positions(100)
        typed = command.replace(ADDRESS, api.server.url)
        done = subprocess.run(["sh", "-c", typed], capture_output=True, text=True, check=True, timeout=60)
    assert "event: asset.produced\ndata: {" in done.stdout


def test_the_policy_status_of_the_page_has_the_fields_of_the_answer(database_url: str) -> None:
    """Also those of its assets."""
    shown = json.loads(PAGE.blocks("json")[0])
    with laboratory(database_url) as lab, serving(lab) as api:
        lab.apply(SHOP, sources=("shop.orders",))
        lab.report("shop.orders", "1")
        lab.work()
        found = api.get("/workflows/shop-total/auto-materialize")
    for name in ("nextRefresh", "lastAutoRun", "cooldown", "breaker"):
        assert shown[name].keys() == found[name].keys()
    assert shown.keys() == found.keys()
    assert shown["assets"][0].keys() == found["assets"][0].keys()


def test_the_table_of_routes_is_the_document() -> None:
    """Every operation with the scope that it needs, and no other."""
    described = operations(document())
    routes = {(f"{one.method.upper()} {one.path.removeprefix(PREFIX)}", one.scope or "nothing") for one in described}
    assert {(code(row[0]), code(row[1])) for row in PAGE.table("Routes")} == routes


def test_every_field_and_parameter_is_described() -> None:
    """The reference has a meaning for each, and no description is for a field that does not exist."""
    described = document()
    schemas = described["components"]["schemas"]
    fields = {(name, field): part for name, one in schemas.items() for field, part in one.get("properties", {}).items()}
    assert [key for key, part in fields.items() if not part.get("description")] == []
    parameters = [part for one in operations(described) for part in one.described.get("parameters", ())]
    assert [part["name"] for part in parameters if not part.get("description")] == []
    known = {field for _, field in fields} | {f"{name}.{field}" for name, field in fields}
    assert set(DESCRIPTIONS) - known == set()


@pytest.mark.parametrize("name", ["openapi.json", "events.schema.json", "definition.schema.json", "source.schema.json"])
def test_no_published_document_has_a_rule_code(name: str) -> None:
    """Users read these without the specification."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert re.findall(r"\bR\d+(?:\.\d+)?\b", text) == []


def test_the_table_of_codes_is_complete() -> None:
    """Every code that the API's modules name, and those of the errors that become problems."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "src" / "freshline" / "api").glob("*.py"))]
    named = {found for text in texts for found in re.findall(r'\b\d{3},\s*"([a-z-]+)"', text)}
    named |= {"not-found", "method-not-allowed", "bad-request", "conflict", "key-reused", "confirmation-needed"}
    named |= {"usage", "database", "schema"}
    assert {code(row[0]) for row in PAGE.table("Problems")} == named


def test_the_scopes_of_the_page_are_those_of_the_command() -> None:
    """docs/security.md names each, from the smallest to the largest."""
    rows = Page("docs/security.md").table("Tokens")
    assert [codes(row[0])[0] for row in rows] == ["read", "operate", "admin"]


VERSIONED = {"About", "Asset", "AssetState", "Delivery", "Reported", "Rows", "Snapshot", "Partition"}


def test_one_name_per_thing() -> None:
    """`version` alone is that of an asset's table (and of the program, in About); other names have no synonyms."""
    schemas = document()["components"]["schemas"]
    fields = {(name, field) for name, one in schemas.items() for field in one.get("properties", ())}
    assert {name for name, field in fields if field == "version"} <= VERSIONED
    synonyms = {one for one in fields if one[1] in {"avoided", "asset", "asset_id", "data_version"}}
    assert synonyms == {("SimulationResult", "avoided")}  # as in `freshline simulate --json`
    assert {name for name, field in fields if field == "runsAvoided"} == {"PolicyStatus", "WorkflowState"}
