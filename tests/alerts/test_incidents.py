"""The pure part: root causes, incidents, and what is sent when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from freshline.alerts import schedule
from freshline.alerts.causes import roots
from freshline.alerts.evaluate import evaluate
from freshline.alerts.records import Closing, Incident, MessageKind, Node, Planned, Rule, Trouble
from freshline.graph import Graph
from freshline.model.alerts import AlertKind, AlertPolicy, matches
from freshline.model.policy import Freshness, QuietHours

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
EVERYTHING = AlertPolicy(tuple(AlertKind))
FAILS, LATE, BREAKER = AlertKind.FAILING, AlertKind.OVERDUE, AlertKind.BREAKER


def graph(edges: Mapping[str, str], extra: Sequence[str] = ()) -> Graph:
    """Return a graph in which workflow `b` makes the asset `b`: {"b": "a"} reads a."""
    slugs = dict(enumerate(sorted({*edges, *extra}), 1))
    ids = {slug: number for number, slug in slugs.items()}
    read = [(one, ids[slug]) for slug, inputs in edges.items() for one in inputs.split()]
    return Graph(epoch=1, slugs=slugs, producers=ids, edges=read)


class World:
    """Rules, incidents and a clock: each step evaluates what is wrong now."""

    def __init__(self, edges: Mapping[str, str], *rules: Rule) -> None:
        self.graph = graph(edges)
        self.ids = {slug: number for number, slug in self.graph.slugs.items()}
        self.rules = {one.id: one for one in rules or (Rule("r", "all", EVERYTHING),)}
        self.incidents: dict[str, Incident] = {}
        self.sent: list[tuple[datetime, Planned]] = []
        self.reported: dict[str, datetime] = {}
        self.now = NOON
        self.numbers = count(1)
        self.next_at: datetime | None = None

    def trouble(self, slug: str, *kinds: AlertKind, **more: object) -> Trouble:
        """Return a workflow that something is wrong with."""
        known = Trouble(Node("workflow", slug), self.now, dict.fromkeys(kinds, (slug,)), self.ids.get(slug), "shop")
        return replace(known, **more)  # type: ignore[arg-type]

    def step(self, *troubles: Trouble, **later: float) -> list[tuple[str, str]]:
        """Let time pass and evaluate; return the messages: what, and about which root."""
        self.now += timedelta(**later)
        recent = {
            rule_id: sum(one.rule_id == rule_id and at > self.now - schedule.WINDOW for at, one in self.sent)
            for rule_id in self.rules
        }
        result = evaluate(
            [replace(rule, recent=recent[rule.id]) for rule in self.rules.values()],
            [one for one in self.incidents.values() if one.done_at is None],
            troubles,
            self.graph,
            reported=self.reported,
            now=self.now,
            new_id=lambda: f"i{next(self.numbers):03}",
        )
        self.incidents |= {one.id: one for one in result.incidents}
        self.sent += [(self.now, one) for one in result.messages]
        for rule_id in result.digested:
            self.rules[rule_id] = replace(self.rules[rule_id], digested_at=self.now)
        self.next_at = result.next_at
        return [(one.kind.value, self.incidents[one.incident_ids[0]].root.name) for one in result.messages]

    def failing(self, *slugs: str, **later: float) -> list[tuple[str, str]]:
        """Evaluate while exactly these workflows fail."""
        return self.step(*(self.trouble(slug, FAILS) for slug in slugs), **later)

    @property
    def open(self) -> list[str]:
        """Return the roots of open incidents."""
        return sorted(one.root.name for one in self.incidents.values() if one.open)


CHAIN = {"b": "a", "c": "b", "d": "c", "e": "x"}
FAN = {"b": "a", **{f"w{number:03}": "b" for number in range(500)}}


def test_the_highest_failing_ancestor_is_the_root() -> None:
    """It explains what fails and what is late below it, also across workflows that only wait."""
    world = World(CHAIN)
    wrong = [world.trouble("b", FAILS), world.trouble("d", LATE), world.trouble("e", FAILS)]
    found = {node.name: root.name for node, root in roots(wrong, world.graph, {}).items()}
    assert found == {"b": "b", "d": "b", "e": "e"}


def test_late_data_does_not_explain_a_failure() -> None:
    """An ancestor that is only late is the root of what is late below it, not of what fails."""
    world = World(CHAIN)
    wrong = [world.trouble("b", LATE), world.trouble("c", FAILS), world.trouble("d", LATE)]
    found = {node.name: root.name for node, root in roots(wrong, world.graph, {}).items()}
    assert found == {"b": "b", "c": "c", "d": "c"}


def test_a_source_that_cannot_be_watched_explains_late_data_and_no_failure() -> None:
    """It is an asset, so it is above the workflows that read it."""
    world = World(CHAIN)
    watch = Trouble(Node("asset", "a"), NOON, {AlertKind.WATCH_FAILED: ("a",)}, project="shop")
    wrong = [watch, world.trouble("b", LATE), world.trouble("d", LATE), world.trouble("c", FAILS)]
    found = {node.name: root.name for node, root in roots(wrong, world.graph, {}).items()}
    assert found == {"a": "a", "b": "a", "c": "c", "d": "c"}
    assert world.step(watch) == [("alert", "a")]
    assert world.step(watch, world.trouble("b", LATE), minutes=1) == []


def test_five_hundred_descendants_are_one_message_and_one_all_clear() -> None:
    """Also while they recover from the top down, each in its own time, and some of them fail once more."""
    world = World(FAN)
    below = [f"w{number:03}" for number in range(500)]
    assert world.failing("b") == [("alert", "b")]
    assert world.failing("b", *below[:250], minutes=1) == []
    assert world.failing("b", *below, minutes=1) == []
    assert world.failing(*below, minutes=1) == [], "the root is fine again"
    assert world.failing(*below[250:], minutes=1) == []
    assert world.failing(below[3], minutes=1) == [], "one of them fails again"
    assert world.failing(minutes=1) == []
    world.failing(minutes=1)
    assert [one.kind for _, one in world.sent] == [MessageKind.ALERT, MessageKind.CLEAR]
    assert len(world.incidents) == 1
    assert world.open == []


def test_consumers_of_a_broken_source_are_one_incident() -> None:
    """They fail in the same way since the same input changed; others that read it have their own reasons."""
    world = World(dict.fromkeys("bcdef", "a"))
    same = {"good": {"a": "v4"}, "error_code": "job"}
    first = world.trouble("b", FAILS, **same)
    assert world.step(first) == [("alert", "b")]
    wrong = [first, *(world.trouble(slug, FAILS, **same) for slug in "cd")]
    assert world.step(*wrong, minutes=1) == [], "they join"
    later = world.trouble("e", FAILS, good={"a": "v5"}, error_code="job")
    other = world.trouble("f", FAILS, good={"a": "v4"}, error_code="timeout")
    assert world.step(*wrong, later, other, minutes=1) == [("alert", "e"), ("alert", "f")]
    assert {root.name for root in roots(wrong, world.graph, {}).values()} == {"a"}


def test_a_failure_above_an_open_incident_is_one_of_its_own() -> None:
    """Nobody would hear of it otherwise. What comes below joins the new one."""
    world = World(CHAIN)
    assert world.failing("c") == [("alert", "c")]
    assert world.failing("b", "c", "d", minutes=1) == [("alert", "b")]
    assert world.open == ["b", "c"]
    assert world.failing("c", minutes=5) == []
    assert world.failing("c", minutes=5) == [("clear", "b")], "d belonged to it"
    assert world.open == ["c"]


def test_assets_that_wait_for_a_silent_source_are_one_incident() -> None:
    """The source that was reported last is the one that usually moves. With newer data, something else is wrong."""
    world = World(dict.fromkeys("bcd", "a static"))
    world.reported = {"a": NOON - timedelta(hours=3), "static": NOON - timedelta(days=90)}
    made = NOON - timedelta(hours=2)
    wrong = [world.trouble(slug, LATE, produced_at=made) for slug in "bcd"]
    assert world.step(*wrong) == [("alert", "a")]
    world.reported["a"] = NOON
    assert set(roots(wrong, world.graph, world.reported).values()) == {Node("workflow", slug) for slug in "bcd"}


def test_a_breaker_and_late_data_continue_the_incident() -> None:
    """Failing, then an open breaker, then overdue: one workflow, one message."""
    world = World(CHAIN)
    assert world.step(world.trouble("b", FAILS)) == [("alert", "b")]
    assert world.step(world.trouble("b", FAILS, BREAKER), minutes=1) == []
    assert world.step(world.trouble("b", FAILS, BREAKER, LATE), world.trouble("c", LATE), minutes=1) == []
    assert next(iter(world.incidents.values())).kinds == {FAILS, BREAKER, LATE}


def test_a_rule_hears_of_what_it_names_and_the_message_names_the_root() -> None:
    """The root may be outside the pattern, and of another kind than the rule asks for."""
    late = Rule("late", "late", AlertPolicy((LATE,), ("d*",)))
    other = Rule("other", "other", AlertPolicy((LATE,), ("z.*",)))
    world = World(CHAIN, late, other)
    assert world.step(world.trouble("b", FAILS)) == []
    assert world.step(world.trouble("b", FAILS), world.trouble("d", LATE), minutes=1) == [("alert", "b")]
    assert [one.rule_id for _, one in world.sent] == ["late"]
    assert world.step(world.trouble("b", FAILS), minutes=1) == []
    assert world.step(world.trouble("b", FAILS), minutes=1) == [("clear", "b")]


def test_a_rule_of_a_project_covers_that_project() -> None:
    """A pattern of one project does not report the assets of another."""
    world = World(CHAIN, Rule("r", "r", EVERYTHING, project="other"))
    assert world.failing("b") == []


def test_flapping_is_one_incident() -> None:
    """A relapse before `clear_after_ms` is no new incident; the all-clear comes when it was fine for that long."""
    world = World(CHAIN)
    assert world.failing("b") == [("alert", "b")]
    for _ in range(20):
        assert world.failing(seconds=50) == []
        assert world.failing("b", seconds=50) == []
    assert world.failing(seconds=1) == []
    assert world.failing(seconds=59) == []
    assert world.failing(seconds=1) == [("clear", "b")]
    assert world.failing("b", minutes=1) == [("alert", "b")], "a new incident"


def test_nothing_is_sent_about_what_is_over_before_its_time() -> None:
    """`after_ms`: a job that succeeds at its next try alerts nobody."""
    world = World(CHAIN, Rule("r", "r", replace(EVERYTHING, after_ms=300_000)))
    assert world.failing("b") == []
    assert world.failing("b", minutes=4) == []
    assert world.failing(seconds=30) == []
    assert world.failing(minutes=2) == []
    assert world.failing("b", minutes=1) == []
    assert world.next_at == world.now + timedelta(minutes=5)
    assert world.failing("b", minutes=5) == [("alert", "b")]


def test_a_rule_that_is_added_later_reports_what_is_wrong() -> None:
    """And one that is paused sends nothing, and reports what is still wrong when it is resumed."""
    world = World(CHAIN, Rule("r", "r", EVERYTHING, paused=True))
    assert world.failing("b", "e") == []
    assert world.failing("b", minutes=1) == []
    assert world.failing("b", minutes=2) == []
    world.rules["r"] = replace(world.rules["r"], paused=False)
    assert world.failing("b", minutes=1) == [("alert", "b")]


def test_what_is_removed_or_not_covered_any_more_is_closed() -> None:
    """A removed workflow gets an all-clear that says so. A rule that changed says nothing: it may still be wrong."""
    world = World(CHAIN)
    world.failing("b", "e")
    world.graph = graph({"e": "x"})
    world.failing("e", minutes=1)
    assert world.step(world.trouble("e", FAILS), minutes=1) == [("clear", "b")]
    assert [one.closing for one in world.incidents.values() if not one.open] == [Closing.REMOVED]
    world.rules["r"] = replace(world.rules["r"], policy=AlertPolicy((FAILS,), ("other",)))
    assert world.failing("e", minutes=5) == []
    assert {one.closing for one in world.incidents.values()} == {Closing.REMOVED, Closing.UNMATCHED}


def test_a_quiet_time_delays_messages_and_summarizes_what_is_over() -> None:
    """At its end there is one message for what is still wrong, or a summary if something was missed."""
    quiet = (QuietHours("22:00", "07:00", timezone="Europe/Vienna"),)
    world = World(CHAIN, Rule("r", "r", replace(EVERYTHING, quiet=quiet)))
    world.now = datetime(2026, 1, 5, 23, tzinfo=UTC)
    assert world.failing("b", "e") == []
    assert world.next_at == datetime(2026, 1, 6, 6, tzinfo=UTC), "07:00 in Vienna"
    world.failing("b", hours=1)
    world.failing("b", minutes=2)
    world.now = datetime(2026, 1, 6, 6, tzinfo=UTC)
    assert world.failing("b") == [("summary", "b")]
    assert len(world.sent[-1][1].incident_ids) == 2
    world.failing(minutes=1)
    assert world.failing(minutes=1) == [("clear", "b")]


def test_a_digest_is_one_message_per_period_and_only_if_something_happened() -> None:
    """It repeats what is still wrong."""
    daily = AlertPolicy(tuple(AlertKind), digest=Freshness(cron="0 8 * * *"))
    world = World(CHAIN, Rule("r", "r", daily, digested_at=NOON))
    assert world.failing("b") == []
    assert world.failing("b", hours=19, minutes=59) == []
    assert world.failing("b", minutes=1) == [("summary", "b")]
    assert world.failing("b", minutes=1) == []
    assert world.failing("b", hours=24) == [("summary", "b")]
    world.failing(hours=1)
    world.failing(hours=1)
    assert world.failing(hours=22) == [("summary", "b")]
    assert world.failing(hours=24) == []
    assert all(one.done_at for one in world.incidents.values())


def test_a_burst_is_joined_in_summaries() -> None:
    """Two hundred independent failures send six messages in five minutes, and nothing is forgotten."""
    slugs = [f"w{number:03}" for number in range(200)]
    world = World({slug: f"source-{slug}" for slug in slugs})
    for number in range(0, 200, 10):
        world.failing(*slugs[: number + 10], seconds=1)
    assert len(world.sent) <= schedule.BURST + 1
    for _ in range(20):
        world.failing(*slugs, minutes=1)
    told = [one for _, message in world.sent for one in message.incident_ids]
    assert sorted(told) == sorted(world.incidents)
    assert len(world.sent) <= 8


def test_patterns_are_those_of_webhooks() -> None:
    """`*` is anything, and no other character is special."""
    assert matches("sales.*", "sales.eu.daily")
    assert not matches("sales.*", "presales.eu")
    assert matches("*", "anything")
    assert not matches("a[bc]", "ab")
    assert not matches("a?", "ab")


SLUGS = "bcdefgh"
WRONG = st.dictionaries(st.sampled_from(SLUGS), st.sets(st.sampled_from(tuple(AlertKind)), min_size=1))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("acdefg"), st.sampled_from(SLUGS)), max_size=10),
    st.lists(st.tuples(WRONG, st.integers(1, 900)), min_size=1, max_size=12),
    st.sampled_from([0, 60_000, 300_000]),
    st.sampled_from([0, 60_000]),
)
def test_every_incident_is_told_once_and_ends_once(
    edges: list[tuple[str, str]], history: list[tuple[dict[str, set[AlertKind]], int]], clear_ms: int, after_ms: int
) -> None:
    """For any graph and any history: at most one alert, and one all-clear after it."""
    above: dict[str, list[str]] = {slug: [] for slug in SLUGS}
    for asset, slug in edges:
        if asset < slug:
            above[slug].append(asset)
    world = World(
        {slug: " ".join(sorted(set(inputs))) for slug, inputs in above.items()},
        Rule("r", "r", replace(EVERYTHING, clear_after_ms=clear_ms, after_ms=after_ms)),
    )
    for wrong, seconds in history:
        world.step(*(world.trouble(slug, *kinds) for slug, kinds in wrong.items()), seconds=seconds)
        held = [key for one in world.incidents.values() if one.open for key in one.members]
        assert {f"workflow:{slug}" for slug in wrong} <= set(held), "everything that is wrong belongs to an incident"
    for _ in range(60):
        world.step(minutes=1)
    assert all(one.closed_at and one.done_at for one in world.incidents.values())
    told: dict[str, list[MessageKind]] = {one: [] for one in world.incidents}
    for _, message in world.sent:
        for one in message.incident_ids:
            told[one].append(message.kind)
    for incident_id, kinds in told.items():
        alerts = [kind for kind in kinds if kind is not MessageKind.CLEAR]
        assert len(kinds) <= 2, (incident_id, kinds)
        assert not kinds or alerts, "an all-clear only after an alert"
