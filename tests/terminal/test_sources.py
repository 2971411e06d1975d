"""Sources, watchers, deliveries and alerts on a real terminal, and the questions before something is dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.storage import layout
from freshline.storage.base import storage_at
from freshline.store.store import Store
from tests.cli.conftest import Freshline, freshline, project, store
from tests.cli.test_writing import collected
from tests.terminal.conftest import Deployment
from tests.terminal.harness import CTRL_C, LARGE, SMALL, Size, assert_readable

__all__ = ["freshline", "project", "store"]  # fixtures

pytestmark = pytest.mark.process
SIZES = [SMALL, pytest.param(LARGE, marks=pytest.mark.full)]
LANDING = "partner.landing.of.customer.orders"
NAMES = ("shop.raw", "shop.clean", "all.orders", LANDING, "drop/orders-2026-11-*.csv")
SOURCE = f"""
assetId: {LANDING}
mode: append
format: csv
path: drop
watch: {{ files: 'drop/orders-2026-11-*.csv', every: 30s }}
"""
ALERTS = """
name = "shop"

[alerts.oncall]
on = ["failing", "breaker", "check-failed"]
assets = "shop.*"
to = [{ env = "ONCALL_URL" }]
"""
ANSWERS = {
    "watch list": (("watch", "list"), LANDING),
    "watch show": (("watch", "show", LANDING), "drop/orders-2026-11-*.csv"),
    "watch check": (("watch", "check", LANDING), "orders-2026-11-01.csv"),
    "delivery list": (("delivery", "list", LANDING), "REPORTED"),
    "alert list": (("alert", "list"), "oncall"),
    "alert show": (("alert", "show", "oncall"), "check-failed"),
}


@pytest.fixture
def deployment(freshline: Freshline, store: Store, database_url: str) -> Iterator[Deployment]:
    """Yield a project with a table that collects rows, a watched source with a delivery, and an alert."""
    root = freshline.project
    (root / "freshline.toml").write_text(ALERTS)
    (root / "drop").mkdir()
    (root / "drop" / "orders-2026-11-01.csv").write_text("id\n1\n")
    (root / "sources" / "landing.yaml").write_text(SOURCE)
    collected(freshline, store)
    freshline("report", LANDING, "--payload", '{"path": "drop/orders-2026-11-01.csv"}')
    layout.check_warehouse(storage_at(str(root / ".freshline" / "warehouse")), store.warehouse_id)
    made = Deployment(root, database_url)
    yield made
    made.close_terminals()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_answer_can_be_read(deployment: Deployment, size: Size) -> None:
    """No traceback, no object, no broken word, no squeezed column."""
    for words, expected in ANSWERS.values():
        terminal = deployment.terminal(*words, size=size)
        assert terminal.end() == 0, terminal.text
        assert expected in terminal.text
        assert_readable(terminal, NAMES)


@pytest.mark.parametrize(("keys", "code"), [("n\n", 1), (CTRL_C, 130)], ids=["no", "ctrl-c"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_full_refresh_asks(deployment: Deployment, store: Store, size: Size, keys: str, code: int) -> None:
    """The question says what is dropped; without a yes nothing is queued."""
    terminal = deployment.terminal("run", "collect", "--full-refresh", size=size)
    terminal.wait_for("Drop these rows? [y/N]:")
    assert "'all.orders' has 7 rows of 2 versions" in " ".join(terminal.text.split())
    terminal.send(keys)
    assert terminal.end(again=keys if keys == CTRL_C else "") == code
    assert_readable(terminal, NAMES)
    assert store.reader.runs(status="queued") == []


@pytest.mark.parametrize("answer", ["n", "y"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_forget_asks(deployment: Deployment, freshline: Freshline, store: Store, size: Size, answer: str) -> None:
    """It says what is dropped. An asset that is in use is refused without a question."""
    refused = deployment.terminal("forget", "all.orders", size=size)
    assert refused.end() == 1
    assert_readable(refused, NAMES)
    (freshline.project / "workflows" / "collect.yaml").unlink()
    freshline("apply", "--yes")
    terminal = deployment.terminal("forget", "all.orders", size=size)
    terminal.wait_for("Forget all.orders? [y/N]:")
    terminal.send(f"{answer}\n")
    assert terminal.end() == 0
    assert_readable(terminal, NAMES)
    assert [one["name"] for one in store.reader.names("all.", 10)] == (["all.orders"] if answer == "n" else [])
