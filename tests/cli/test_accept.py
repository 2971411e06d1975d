"""`freshline accept`, and how commands show rows of older code (docs/semantics.md#R9.9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshline.definitions.loading.project import load_project
from freshline.model.run import StagedOutput
from freshline.services.reconciler import Reconciler
from freshline.store.db.ids import new_id
from freshline.store.runs.claim import Claimant
from freshline.store.store import Store
from tests.cli.conftest import Freshline

WORKFLOW = """
slug: collect
steps:
  - id: load
    job: { kind: python, entrypoint: collecting:load }
    consumes: [{ assetId: shop.raw }]
    produces:
      - assetId: shop.log
        autoMaterialize: { onUpstreamUpdate: true }
        table: { mode: append }
"""
QUESTION = (
    "shop.log needs a decision: 300 rows are of older code; `freshline run collect --full-refresh` computes them again"
)


@pytest.fixture
def changed(freshline: Freshline, project: Path, store: Store) -> Callable[..., Any]:
    """Append 300 rows with a function, and change it; the change is not applied."""
    (project / "workflows" / "collect.yaml").write_text(WORKFLOW)
    (project / "collecting.py").write_text("def load(ctx):\n    return 1\n")
    freshline("apply", "--yes")
    freshline("report", "shop.raw")
    for _ in range(5):
        store.evaluation.consume_inbox(100)
        while Reconciler(store).run_once():
            pass
    code = load_project(project).code_hash
    while run := store.runs.claim(Claimant(new_id(), "shop", code, spark=False)):
        name = {"collect": "shop.log", "make-clean": "shop.clean"}.get(run.slug, "shop.daily")
        location = {"format": "parquet", "paths": [f"{name}/data/x"], "files": {}}
        step = run.definition["steps"][0]["id"]
        store.runs.publish(run, [StagedOutput(name, step, "d1", location, rows=300)])
    (project / "collecting.py").write_text("def load(ctx):\n    return 2\n")
    return freshline


def test_commands_show_rows_of_older_code_until_they_are_accepted(changed: Freshline) -> None:
    """`apply` says it before it asks, then `status` and `why`, with the number, the cost and both answers."""
    assert QUESTION in changed("apply", "--dry-run").stdout
    assert "needs decision" not in changed("status").stdout
    document = changed.json("apply", "--yes")
    assert document["needsDecision"]["shop.log"]["rows"] == 300
    told = changed("status")
    assert ", needs decision" in told.stdout
    assert "1 table needs a decision" in told.stdout
    assert QUESTION in told.output
    assert QUESTION in changed("why", "shop.log").stdout
    assert "`freshline accept shop.log` keeps them as they are" in changed("why", "shop.log").stdout
    assert "v1" in changed("table", "versions", "shop.log").stdout
    assert changed("accept", "shop.log").stderr.strip() == "shop.log: 300 rows of older code accepted as they are"
    assert "needs decision" not in changed("status").output
    assert "shop.log' needs no decision" in changed("accept", "shop.log", code=1).stderr


def test_accept_answers_as_json(changed: Freshline) -> None:
    """The document says what was accepted."""
    changed("apply", "--yes")
    assert changed.json("accept", "shop.log") == {"assetId": "shop.log", "rows": 300, "partitions": 0}


def test_a_baseline_accepts(changed: Freshline) -> None:
    """The preview of an apply says what the apply does: with a baseline nothing is asked."""
    told = changed("apply", "--baseline", "now", "--yes").stdout
    assert "needs a decision" not in told
    assert "needs decision" not in changed("status").output
