"""docs/assets-overview.md lists every policy field, event and reason of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from freshline import settings
from freshline.cli.render.decisions import sentence
from freshline.definitions.schema.base import Model
from freshline.definitions.schema.workflow import AutoMaterialize, Backoff, Freshness, Workflow
from freshline.model.backfill import BackfillRequest
from freshline.model.enums import EventType, ExpiryReason, Outcome, Reason
from freshline.model.run import StagedOutput
from tests.docs.pages import ASSETS, code, codes
from tests.docs.test_configuration import ROWS
from tests.store.transaction_cases import Scene, accept_code, outlived, proposed, recoded
from tests.store_harness import Lab, laboratory, workflow

NONE = {"None", "()", "{}"}
EVENTS = {code(row[0]): row for row in ASSETS.table("Events")}
SKIPS = {Reason.UP_TO_DATE, Reason.POLICY_OFF, Reason.NOT_AUTO}
RUNS = {
    Reason.MISSING,
    Reason.RETRY,
    Reason.DEFINITION_CHANGED,
    Reason.UPSTREAM_UPDATE,
    Reason.EXPIRED,
    Reason.BACKFILL,
}


def defaults(block: type[Model]) -> dict[str, str]:
    """Return the fields of a block with their defaults, as the page writes them."""
    found = {field.alias or name: str(field.default) for name, field in block.model_fields.items()}
    return {name: "none" if value in NONE else value.lower() for name, value in found.items()}


@pytest.mark.parametrize(
    ("title", "block", "said"),
    [
        ("`freshness` on `produces`", Freshness, {"offsetMs": "0", "timezone": "utc"}),
        ("`autoMaterialize` on `produces`", AutoMaterialize, {}),
    ],
)
def test_every_policy_field_has_its_default(title: str, block: type[Model], said: dict[str, str]) -> None:
    """The tables name all fields and no other, with the defaults that the models have. `said`: filled in later."""
    shown = {code(row[0]): code(row[1]).lower() for row in ASSETS.table(title)}
    assert shown == defaults(block) | said


def test_the_fields_of_the_workflow_are_all_there() -> None:
    """Every field of a workflow that has to do with when and how it runs; the others are in the field reference."""
    shown = {code(row[0]): code(row[1]).lower() for row in ASSETS.table("On the workflow")}
    wanted = {name: value for name, value in defaults(Workflow).items() if name not in NOT_HERE}
    wanted |= {f"backoff.{name}": value for name, value in defaults(Backoff).items()}
    wanted |= {"backoff.baseMs": "asset_materializer_base_backoff_ms"}
    wanted |= {"backoff.maxMs": "asset_materializer_max_backoff_ms"}
    assert shown == wanted


NOT_HERE = {"slug", "description", "steps", "backoff", "pool", "maxConcurrency", "spark"}


def test_the_variables_have_the_defaults_of_the_configuration() -> None:
    """The two pages agree, and the first three are those of the original design."""
    shown = {code(row[0]): code(row[1]) for row in ASSETS.table("Running it")}
    assert shown == {name: code(ROWS[name][0]) for name in shown}
    assert len([name for name in shown if name.startswith("ASSET_MATERIALIZER_")]) == 3
    assert settings.load({}).event_bus == shown["FRESHLINE_EVENT_BUS"]


def test_every_reason_is_told() -> None:
    """All reason codes, in order, each with its outcome, and `why` has a sentence for each of them."""
    rows = ASSETS.table("Reasons")
    assert [code(row[0]) for row in rows] == [str(reason) for reason in Reason]
    for reason, outcome, words, remedy in rows:
        assert Outcome(outcome) is expected(Reason(code(reason)))
        assert words
        assert remedy
        told = sentence(
            {
                "workflowSlug": "x",
                "partitionKey": "",
                "outcome": outcome,
                "reason": code(reason),
                "evidence": {},
            }
        )
        assert not told.endswith(f": {code(reason)}")


def expected(reason: Reason) -> Outcome:
    """Return the outcome of a decision with this reason."""
    if reason is Reason.EVALUATION_FAILED:
        return Outcome.ERROR
    return Outcome.RUN if reason in RUNS else Outcome.SKIP if reason in SKIPS else Outcome.HOLD


def test_every_event_is_told() -> None:
    """All event types, and no other; expiry reasons are those of the code."""
    assert set(EVENTS) == {str(event) for event in EventType}
    assert codes(EVENTS["asset.expired"][2])[3:] == [str(reason) for reason in ExpiryReason]


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a real store with a controlled clock."""
    with laboratory(database_url) as lab:
        yield lab


def test_events_carry_what_the_page_says(lab: Lab) -> None:
    """One history with every type of event: its data has the fields of its row, and no other."""
    everything_happens(lab)
    proposed(Scene(lab))
    outlived(Scene(lab))
    lab.store.retirement.retire_partitions()
    recoded(Scene(lab))
    accept_code(Scene(lab))
    seen: dict[str, set[str]] = {}
    for event in lab.rows("SELECT type, data FROM events"):
        seen.setdefault(event["type"], set()).update(event["data"])
    assert {name: sorted(fields) for name, fields in seen.items()} == {
        name: sorted(documented(name)) for name in EVENTS
    }


def everything_happens(lab: Lab) -> None:
    """Cause a success, an expiry, an overdue asset that recovers, a failure, a breaker, a reset, a cancellation."""
    backoff = {"baseMs": 1000, "maxMs": 1000, "budget": 1}
    fresh = {"ttlMs": 60_000, "maxAgeMs": 120_000}
    lab.apply(workflow("b", "a", freshness=fresh, backoff=backoff, publishParameters=True))
    lab.report("a", "1")
    lab.work()
    lab.advance(minutes=3)
    lab.settle()
    lab.store.runs.publish(lab.start(), [StagedOutput("b", "work", "x")], publish_parameters=True)
    lab.report("a", "2")
    lab.settle()
    lab.fail(lab.start())
    lab.store.operations.reset("b")
    lab.settle()
    lab.store.operations.cancel(str(lab.runs("b")[-1]["id"]))
    lab.apply(workflow("b", "a"), workflow("d", "b"))
    lab.work()
    lab.store.backfills.cancel(lab.store.backfills.create(BackfillRequest("b")))
    lab.store.backfills.create(BackfillRequest("b", downstream=True))
    lab.work()


def documented(name: str) -> set[str]:
    """Return the fields of a row: its own, and those of the row that it refers to."""
    cell = EVENTS[name][2]
    values, without = re.compile(r": `.*"), re.compile(r"as produced but for `(\w+)`,")
    own = set(codes(values.sub("", without.sub("", cell)))) - {"publishParameters"}
    if cell.startswith("as produced"):
        return own | documented("asset.produced") - set(without.findall(cell))
    if cell.startswith("the same"):
        first = "materializer.breaker.opened" if name.startswith("materializer") else "workflow.run.queued"
        return own | documented(first)
    return own


def test_the_trigger_looks_as_shown(lab: Lab) -> None:
    """An automatic run's trigger has exactly the fields of the example, the nested ones too."""
    (text,) = ASSETS.blocks("json")
    shown = json.loads(text)
    lab.apply(workflow("total", "orders"), workflow("alert", "total"))
    lab.report("orders", "1")
    lab.work()
    lab.report("orders", "2")
    lab.work()
    trigger = lab.runs("alert")[-1]["trigger"]
    assert set(trigger) == set(shown)
    assert trigger["reason"] == shown["reason"]
    assert set(trigger["upstream"][0]) == set(shown["upstream"][0])


def test_a_manual_trigger_looks_as_told(lab: Lab) -> None:
    """It has a type, a partition key, and the names of the parameters."""
    lab.apply(workflow("total", "orders", auto=None))
    lab.report("orders", "1")
    lab.store.operations.request_run("total", {"top": 3})
    assert lab.runs("total")[0]["trigger"] == {"type": "manual", "partitionKey": "", "parameters": ["top"]}
    assert '{"type": "manual", "partitionKey", "parameters"}' in ASSETS.text
