"""The texts of messages: what a person reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from freshline.alerts.message import Facts, Frame, commands, trial, write
from freshline.alerts.records import Closing, Incident, MessageKind, Node
from freshline.model.alerts import AlertKind

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
RUN = "0197a1c2-7c11-7000-8000-1f6a5f7c2b10"
FAILING = Incident(
    "i1",
    "r",
    Node("workflow", "orders"),
    NOON,
    frozenset({AlertKind.FAILING}),
    frozenset({"workflow:orders"}),
    ("orders.clean",),
    1,
    RUN,
    "KeyError: 'price'",
)
FRAME = Frame("sales")


def test_an_alert_says_what_happened_why_and_what_to_run() -> None:
    """The whole text."""
    text = write(MessageKind.ALERT, [Facts(FAILING, 12, "orders.clean is failing\n")], FRAME, NOON)
    assert text.title == "Freshline: workflow 'orders' is failing"
    assert (
        text.body
        == f"""Workflow 'orders' is failing: KeyError: 'price'.
12 assets downstream wait for it.
Affected: orders.clean.

Why:
  orders.clean is failing

What to run:
  freshline why orders
  freshline logs {RUN}
  freshline reset orders

Rule sales, incident i1, since 2026-01-05 12:00 UTC."""
    )


def test_each_kind_has_its_title() -> None:
    """The worst one is named; assets that are late are named themselves."""

    def title(root: Node = FAILING.root, *kinds: AlertKind, **more: object) -> str:
        incident = FAILING.but(root=root, kinds=frozenset(kinds), **more)
        return write(MessageKind.ALERT, [Facts(incident)], FRAME, NOON).title.removeprefix("Freshline: ")

    orders, raw = FAILING.root, Node("asset", "landing.orders")
    assert title(orders, AlertKind.FAILING, AlertKind.BREAKER) == "workflow 'orders' fails, and its breaker is open"
    assert title(orders, AlertKind.FAILING, AlertKind.CHECK_FAILED) == "a check of workflow 'orders' failed"
    assert title(orders, AlertKind.OVERDUE) == "orders.clean is overdue"
    assert title(orders, AlertKind.OVERDUE, assets=("a", "b"), affected=2) == "a, b are overdue"
    many = title(orders, AlertKind.OVERDUE, assets=tuple("abcdefg"), affected=500)
    assert many == "a, b, c, d, e and 495 more are overdue"
    below = title(orders, AlertKind.OVERDUE, members=frozenset({"workflow:sales"}))
    assert below == "orders.clean is overdue, because workflow 'orders' fails"
    assert title(raw, AlertKind.FAILING) == "workflows that read landing.orders are failing"
    watched = frozenset({raw.key})
    assert title(raw, AlertKind.WATCH_FAILED, members=watched) == "the watcher of landing.orders fails"
    proposal = Node("backfill", "one")
    assert title(proposal, AlertKind.BACKFILL_PROPOSED) == "a backfill of orders.clean waits for an approval"
    assert commands(FAILING.but(root=proposal)) == [
        f"freshline backfill {one} one" for one in ("show", "approve", "deny")
    ]
    assert title(raw, AlertKind.OVERDUE) == (
        "assets that are made from landing.orders are overdue: it was not reported"
    )


def test_an_all_clear_says_how_long_it_took() -> None:
    """And that a workflow was removed, if that is why."""
    ended = FAILING.but(closed_at=NOON + timedelta(minutes=90), closing=Closing.RECOVERED)
    text = write(MessageKind.CLEAR, [Facts(ended)], FRAME, NOON)
    assert text.title == "Freshline: workflow 'orders' is fine again"
    assert "1.5 h" in text.body
    gone = write(MessageKind.CLEAR, [Facts(ended.but(closing=Closing.REMOVED))], FRAME, NOON)
    assert gone.title == "Freshline: workflow 'orders' was removed"


def test_a_summary_lists_what_is_open_and_what_ended() -> None:
    """With the command to run for each, and a limit."""
    ended = FAILING.but(id="i2", recovered_at=NOON, closed_at=NOON, closing=Closing.RECOVERED)
    facts = [Facts(FAILING, 3), Facts(ended)]
    text = write(MessageKind.SUMMARY, facts, FRAME, NOON + timedelta(hours=1))
    assert text.title == "Freshline: 1 incident open, 1 ended"
    assert "workflow 'orders' is failing (since 2026-01-05 12:00 UTC, 1.0 h, 3 assets downstream): freshline why" in (
        text.body
    )
    assert write(MessageKind.SUMMARY, [Facts(FAILING)] * 80, FRAME, NOON).body.count("freshline why") == 50


def test_a_template_replaces_the_text() -> None:
    """Values are inserted once."""
    frame = Frame("sales", "[{kind}] {root}\n", "{error} {why} {commands}")
    text = write(MessageKind.ALERT, [Facts(FAILING.but(error="{root} \x1b[31m"), 0, "because")], frame, NOON)
    assert text.title == "[failing] orders"
    assert text.body.startswith("{root} [31m because freshline why orders\n")


def test_texts_are_bounded() -> None:
    """An error of a megabyte does not leave the machine."""
    text = write(MessageKind.ALERT, [Facts(FAILING, 0, "x" * 1_000_000)], FRAME, NOON)
    assert len(text.body) == 8_000
    assert "Nothing is wrong" in trial("the rule 'sales'", NOON).body
