"""docs/decisions.md lists every reason, in the order of the code, with the evidence of real decisions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from freshline.cli.main import COMMANDS
from freshline.cli.render.decisions import sentence, vectors
from freshline.decide import Decision
from freshline.decide.holds import REST_RECHECK
from freshline.decide.motion import MOST_BLOCKERS
from freshline.model.backfill import Demand
from freshline.model.documents import decision as documents
from freshline.model.enums import BLOCKING_HOLDS, ExpiryReason, Outcome, Reason
from freshline.model.staleness import Staleness
from freshline.model.state import Head, Input, Pending, Version
from freshline.store.evaluation.evaluation import failed_evaluation
from tests.decide.builders import HOUR, Scenario, clock, fresh, given, stale
from tests.decide.test_order import held_by
from tests.docs.pages import ROOT, Page, code, codes

PAGE = Page("docs/decisions.md")
SECTIONS = {"Runs": Outcome.RUN, "Holds": Outcome.HOLD, "Skips": Outcome.SKIP, "Errors": Outcome.ERROR}
ROWS = {code(row[0]): row for section in SECTIONS for row in PAGE.table(section)}
COMMON = {"inputs", "cause", "assetId"}
AT_TIMES = {"expiry", "alsoHeldBy"}
ORDER = [codes(line)[0] if codes(line) else "run" for line in re.findall(r"^\d+\. (.+)$", PAGE.text, re.MULTILINE)]
HOLDS = [code(row[0]) for row in PAGE.table("Holds")]
CAUSES = [code(row[0]) for row in PAGE.table("Runs")]


def looping() -> Scenario:
    """Return a scenario where two successes did not remove the cause."""
    run = stale().decide().run
    assert run is not None
    return stale().facts(success_cause=run.cause, cause_repeats=2)


def expired() -> Scenario:
    """Return a scenario where the freshness expired."""
    return given().input("a", head="1", read="1").output("b", expired="08:45")


# For each reason, decisions that together contain all possible evidence.
SCENARIOS: dict[str, list[Scenario]] = {reason: [held_by(reason), held_by(reason, "min-interval")] for reason in HOLDS}
SCENARIOS["in-flight"] += [stale().active("queued", {"a": "1"})]
SCENARIOS["paused"] += [stale().paused(until="12:00")]
SCENARIOS["quiet-hours"] += [expired().quiet("08:00", "10:00")]
SCENARIOS |= {
    "missing": [given().never_ran().input("a").output("b", head=None)],
    "retry": [stale().failed(), expired().failed()],
    "definition-changed": [fresh().redefined()],
    "upstream-update": [stale()],
    "expired": [expired()],
    "backfill": [fresh().facts(demands=(Demand("backfill", clock("08:00"), 1),))],
}
for _reason in CAUSES:
    SCENARIOS[_reason] += [one.blocked(cannot_run=True) for one in SCENARIOS[_reason]]
SCENARIOS |= {
    "up-to-date": [
        fresh(),
        fresh().active("queued", {"a": "2"}),
        fresh().redefined().facts(declined=Staleness(job=fresh().redefined().state.job_fingerprint)),
        stale(retain_ms=HOUR).facts(window_ends=clock("07:30")),
    ],
    "policy-off": [stale(automatic=False)],
    "not-auto": [stale(declared=False, automatic=False)],
    "evaluation-failed": [looping()],
}


def test_every_reason_has_a_row_under_its_outcome() -> None:
    """All codes, each once, none that does not exist, and the tables follow the order of the words."""
    listed = [code(row[0]) for section in SECTIONS for row in PAGE.table(section)]
    assert listed == [*CAUSES, *HOLDS, "up-to-date", "policy-off", "not-auto", "evaluation-failed"]
    assert listed == [str(reason) for reason in Reason]
    for section, outcome in SECTIONS.items():
        for row in PAGE.table(section):
            found = SCENARIOS[code(row[0])][0].decide()
            assert (found.outcome, found.reason) == (outcome, code(row[0]))


@pytest.mark.parametrize("reason", Reason)
def test_the_evidence_is_what_is_told(reason: str) -> None:
    """The keys of real decisions are the common ones and those of the row: none less, none more."""
    keys = {key for scenario in SCENARIOS[reason] for key in scenario.decide().evidence}
    named = set(codes(ROWS[reason][2]))
    alone = reason == "input-missing" or ROWS[reason][0] in PAGE.section("Skips") + PAGE.section("Errors")
    assert keys - AT_TIMES == named | (set() if alone else COMMON)
    for scenario in SCENARIOS[reason]:
        assert scenario.decide().reason == reason
        assert alone or set(scenario.decide().evidence) >= COMMON


def test_the_common_evidence_is_what_is_told() -> None:
    """The table of common keys, the keys of an input, the causes and the reasons of an expiry."""
    rows = {code(row[0]): row[1] for row in PAGE.table("Evidence")}
    assert set(rows) == COMMON | AT_TIMES | {"changes"}  # derived when a decision is read
    assert codes(rows["inputs"]) == [*stale().decide().evidence["inputs"][0], "retired", "unread"]
    bases = {one.decide().evidence["cause"] for reason in CAUSES for one in SCENARIOS[reason]}
    assert set(codes(rows["cause"])) == bases
    expiry = expired().decide().evidence["expiry"]
    assert sorted(codes(rows["expiry"])) == sorted([*expiry, *ExpiryReason])


def test_an_old_input_is_the_asset_of_its_hold() -> None:
    """`assetId` is the input there, and the output everywhere else."""
    assert held_by("input-too-old").decide().evidence["assetId"] == "a"
    assert held_by("paused").decide().evidence["assetId"] == "b"


def test_the_order_of_the_page_is_the_order_of_the_code() -> None:
    """Everything at once is answered by the first; with it gone, by the next, to the end."""
    assert [one for one in ORDER if one in HOLDS] == HOLDS
    scenario = replace(held_by(*HOLDS), policy=replace(held_by(*HOLDS).policy, declared=False, automatic=False))
    answers = [scenario.decide().reason]
    scenario = scenario.auto(declared=True)
    answers += [scenario.decide().reason, scenario.auto(automatic=True).decide().reason]
    answers += [fresh().active("running", {"a": "1"}).paused().decide().reason]
    answers += [looping().active("running", {"a": "1"}).decide().reason]
    answers += [held_by(*HOLDS[number:]).decide().reason for number in range(1, len(HOLDS))]
    assert [*answers, "run"] == ORDER
    assert held_by(*HOLDS).decide().evidence["alsoHeldBy"] == HOLDS[1:]


def test_a_missing_input_comes_before_nothing_to_do() -> None:
    """The third place and the fourth."""
    fresh().input("z", head=None).decides("hold", "input-missing")


def test_the_order_of_causes() -> None:
    """With all causes there the first is the reason; each that goes leaves the next."""
    everything = given().redefined().failed().input("a", head="2", read="1").output("b", head=None, expired="08:45")
    made = given().redefined().failed().input("a", head="2", read="1").output("b", expired="08:45")
    mended = made.facts(failures=stale().state.failures)
    same = mended.facts(job_fingerprint=stale().state.job_fingerprint)
    asked = SCENARIOS["backfill"][0]
    scenarios = (everything, made, mended, same, expired(), asked)
    found = [one.decides("run", one.decide().reason).reason for one in scenarios]
    assert found == CAUSES
    (line,) = re.findall(r"its cause, the first of (.+?)\. ", PAGE.section("The order").replace("\n", " "))
    assert codes(line) == CAUSES


def delay(decision: Decision, now: datetime) -> timedelta | None:
    """Return the time until the next evaluation."""
    return None if decision.next_evaluation is None else decision.next_evaluation - now


@pytest.mark.parametrize("reason", [*HOLDS, "evaluation-failed"])
def test_the_next_evaluation_is_what_is_told(reason: str) -> None:
    """At the end of the hold, or after a time that doubles from the first to the second that is told."""
    told = ROWS[reason][4]
    scenario = SCENARIOS[reason][0]
    decision = scenario.decide()
    if told == "at its end":
        assert decision.evidence["until"] == stamp(decision.next_evaluation)
    elif told == "at `nextProbeAt`":
        assert decision.evidence["nextProbeAt"] == stamp(decision.next_evaluation)
    elif told == "a day":
        assert delay(decision, scenario.now) == REST_RECHECK
    else:
        delays = [delay(scenario.facts(evaluations=number).decide(), scenario.now) for number in (0, 1, 50)]
        first, last = (seconds(text) for text in re.findall(r"\d+ (?:s|min)", told))
        expected = last if reason != "waiting-for-upstream" else min(last, deadline(decision) - scenario.now)
        assert delays == [first, 2 * first, expected]


def stamp(moment: datetime | None) -> str | None:
    """Return a time as evidence contains it."""
    return moment.isoformat().replace("+00:00", "Z") if moment else None


def seconds(text: str) -> timedelta:
    """Parse `30 s` or `10 min`."""
    number, unit = text.split()
    return timedelta(seconds=int(number) * (60 if unit == "min" else 1))


def deadline(decision: Decision) -> datetime:
    """Return the deadline of a wait."""
    return datetime.fromisoformat(decision.evidence["deadline"])


def test_a_wait_is_looked_at_at_its_deadline_at_the_latest() -> None:
    """The last look before the end is the end."""
    scenario = held_by("waiting-for-upstream").facts(evaluations=50)
    scenario = scenario.waited(scenario.policy.max_wait_ms - 500)
    decision = scenario.decides("hold", "waiting-for-upstream")
    assert decision.next_evaluation == deadline(decision) == clock("09:00:00.5")


def test_a_pause_with_an_end_is_looked_at_then() -> None:
    """And one without is looked at seldom."""
    assert stale().paused(until="12:00").decide().next_evaluation == clock("12:00")
    assert delay(stale().paused().decide(), clock("09:00")) == timedelta(seconds=30)
    assert ROWS["paused"][4] == "at its end; without one 30 s to 10 min"


@pytest.mark.parametrize("reason", [*CAUSES, "up-to-date", "policy-off", "not-auto"])
def test_runs_and_skips_have_no_next_evaluation(reason: str) -> None:
    """As the page says above their tables."""
    assert [one.decide().next_evaluation for one in SCENARIOS[reason] if one.decide().next_evaluation] == []


def test_what_others_wait_for_is_told() -> None:
    """The holds with an end that those below wait for, and how many blockers are shown."""
    text = PAGE.section("Holds")
    told = text[text.index("Those below wait") : text.index(" if that ends before")]
    assert set(codes(told)) == BLOCKING_HOLDS
    assert f"at most {MOST_BLOCKERS}" in text


def report() -> Scenario:
    """Return the wait that the page shows."""
    orders = Input(
        "orders", Head(2, "seq:2", clock("09:00")), Version(1, "seq:1"), Pending(clock("09:00"), clock("09:00"), 1)
    )
    clean = Input("clean", Head(4, "3f9c", clock("08:00")), Version(4, "3f9c"))
    policies = fresh().input("orders").input("clean").policy.inputs[1:]
    scenario = given(max_wait_ms=HOUR // 2, debounce_ms=HOUR).output("report").auto(inputs=policies)
    waiting = scenario.facts(inputs=(orders, clean)).blocked()
    blocker = replace(waiting.state.blockers[0], slug="clean")
    return waiting.facts(blockers=(blocker,))


def shown() -> documents.Decision:
    """Return the decision that the page shows as JSON."""
    (text,) = PAGE.blocks("json")
    found: documents.Decision = json.loads(text)
    return found


def test_the_decision_of_the_page_is_real() -> None:
    """Outcome, reason and evidence are what the code decides, key by key and in this order."""
    decision = report().decide()
    page = shown()
    assert (page["outcome"], page["reason"]) == (decision.outcome, decision.reason)
    assert json.dumps(page["evidence"]) == json.dumps(decision.evidence)


def test_the_fields_of_a_decision_are_those_of_the_listing() -> None:
    """What `freshline decisions --json` prints has these fields."""
    text = (ROOT / "src" / "freshline" / "store" / "sql" / "read.sql").read_text(encoding="utf-8")
    query = text.partition("-- name: decisions\n")[2].partition("FROM")[0].partition("SELECT")[2]
    fields = [column.split('"')[1] if '"' in column else column.split(".")[1].strip() for column in query.split(",")]
    assert list(shown()) == fields


def test_the_sentence_of_the_page_is_what_why_says() -> None:
    """The words and the versions side by side; the time of day aside."""
    text = PAGE.blocks("text")[0]
    first, _, *rows = text.splitlines()
    said = re.sub(r"until [\d :-]+ at", "until * at", sentence(shown()))
    assert re.sub(r"until [\d :-]+ at", "until * at", first) == said
    assert [row.split(maxsplit=3) for row in rows] == [list(row) for row in vectors(shown())]


def test_equal_decisions_are_those_that_say_the_same() -> None:
    """How a blocker moves makes no difference; another blocker, another version or another end does."""
    waits = stale().blocked(motion="queued").decide()
    assert waits.digest == stale().blocked(motion="running").decide().digest
    assert waits.digest != stale().blocked(number=8).decide().digest
    settling = stale(debounce_ms=HOUR)
    later = given(debounce_ms=HOUR).input("a", head="2", read="1", at="08:40").output("b")
    assert settling.decide().digest == settling.at("09:01").decide().digest
    assert settling.decide().digest != later.decide().digest


def test_an_error_without_a_cause() -> None:
    """What cannot be evaluated has the error alone."""
    assert set(failed_evaluation("it broke", 0, clock("09:00")).evidence) == {"error"}


def test_the_motions_of_blockers_are_told() -> None:
    """Every kind of motion that the database reports, and a run's states."""
    text = (ROOT / "src" / "freshline" / "store" / "sql" / "evaluation.sql").read_text(encoding="utf-8")
    line = PAGE.section("Holds").partition("The motion is ")[2].partition("or the reason")[0]
    assert [motion for motion in codes(line) if f"'{motion}'" not in text] == []


@pytest.mark.parametrize("page", [PAGE, Page("docs/policies.md")], ids=lambda page: page.name)
def test_commands_and_links_lead_somewhere(page: Page) -> None:
    """What is to be typed exists, and so do the files and headings that are linked."""
    named = {text.split()[1] for text in codes(page.prose) if text.startswith("freshline ")}
    assert named | {command[0] for command in page.commands()} <= set(COMMANDS)
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", page.prose):
        text = (ROOT / "docs" / target).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in titles]
