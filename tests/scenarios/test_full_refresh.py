"""A full refresh never drops rows that cannot be computed again without a confirmation (docs/semantics.md#R9.5)."""

from __future__ import annotations

from typing import Any

import pytest

from freshline.errors import ConfirmationError
from freshline.model.run import ClaimedRun, StagedOutput
from tests.store_harness import ON_UPDATE, Lab

DROP = {"assetId": "drop", "format": "csv", "path": "drop"}


def loads(*consumes: Any, mode: str = "append", own: bool = False, before: str | None = None) -> dict[str, Any]:
    """Return a workflow `load` that makes the table `orders`; `before`: the output of a step before."""
    table = {"mode": mode, **({"keys": ["id"]} if mode == "merge" else {})}
    inputs = [{"assetId": one} if isinstance(one, str) else one for one in consumes]
    produced = {"assetId": "orders", "autoMaterialize": ON_UPDATE, "table": table}
    first = {"id": "first", "consumes": inputs, "produces": [{"assetId": before}]}
    last = {"id": "work", "consumes": [{"assetId": before}] if before else inputs, "produces": [produced]}
    if own:
        last["consumes"] = [*last["consumes"], {"assetId": "orders"}]
    steps: list[dict[str, Any]] = [first, last] if before else [last]
    job = {"kind": "spark.python", "entrypoint": "jobs:work"}
    return {"slug": "load", "steps": [{**step, "job": job} for step in steps]}


def outputs(run: ClaimedRun) -> list[StagedOutput]:
    """Return what a run stages: the rows of every version are appended, or written again."""
    mode = run.definition["steps"][-1]["produces"][0]["table"]["mode"]
    head = run.inputs.get("orders")
    added = mode == "append" and head is not None and not run.trigger.get("fullRefresh")
    path = f"orders/data/{run.id}-1-1"
    return [
        StagedOutput(
            asset_id="orders",
            step_id="work",
            data_version=f"v-{run.id}",
            location={"format": "parquet", "paths": [path], "files": {}},
            rows=(head.rows or 0 if head and added else 0) + 100,
            appended=added,
            based_on=head.sequence if head else 0,
        ),
        *(
            StagedOutput(asset_id=one["assetId"], step_id=step["id"], data_version=f"b-{run.id}")
            for step in run.definition["steps"][:-1]
            for one in step["produces"]
        ),
    ]


def report(lab: Lab, *versions: str, source: str = "drop") -> None:
    """Report versions of a source, each loaded by a run."""
    for version in versions:
        lab.report(source, version)
        lab.work_with(outputs)


def test_a_full_refresh_of_collected_rows_needs_a_confirmation(lab: Lab) -> None:
    """The error says how many rows are dropped and why. Nothing is queued before somebody confirms it."""
    lab.apply(loads({"assetId": "drop", "rows": "new"}), sources=(DROP,))
    report(lab, "1", "2", "3")
    with pytest.raises(
        ConfirmationError,
        match="a full refresh of 'load' drops rows that cannot be computed again: 'orders' has 300 rows of 3 versions, "
        "and its input 'drop' holds only its newest version",
    ) as caught:
        lab.store.operations.request_run("load", full_refresh=True)
    assert "`freshline table rollback orders --to 3` brings the rows back" in str(caught.value.hint)
    assert lab.active() == []
    lab.store.operations.request_run("load")  # appends
    lab.work_with(outputs)
    run_id = lab.store.operations.request_run("load", full_refresh=True, confirm=True, key="k")
    assert lab.store.operations.request_run("load", full_refresh=True, key="k") == run_id


@pytest.mark.parametrize(
    "definition",
    [
        loads("drop", mode="merge"),
        loads("drop", mode="overwrite", own=True),
        loads("drop", before="clean"),
        loads({"assetId": "drop", "rows": "new"}, "other"),
    ],
    ids=["merged", "own", "through-a-step", "beside-a-lookup"],
)
def test_every_table_that_collects_is_protected(lab: Lab, definition: dict[str, Any]) -> None:
    """Merged tables, tables that read themselves, and tables below another step of the workflow."""
    lab.apply(definition, sources=(DROP, {"assetId": "other", "mode": "append"}))
    lab.report("other", "1")
    report(lab, "1", "2")
    with pytest.raises(ConfirmationError, match="its input 'drop' holds only"):
        lab.store.operations.request_run("load", full_refresh=True)


@pytest.mark.parametrize(
    "definition",
    [
        loads({"assetId": "files", "rows": "new"}),
        loads({"assetId": "files", "rows": "new"}, "drop"),
        loads("drop", mode="overwrite"),
    ],
    ids=["all-deliveries-are-there", "a-lookup", "overwritten"],
)
def test_what_can_be_computed_again_is_not_asked_about(lab: Lab, definition: dict[str, Any]) -> None:
    """An append source holds every delivery, and an overwritten table collects nothing."""
    lab.apply(definition, sources=(DROP, {"assetId": "files", "mode": "append"}))
    lab.report("files", "1")
    report(lab, "1", "2")
    report(lab, "2", source="files")
    lab.store.operations.request_run("load", full_refresh=True)


def test_one_version_is_lost_once_its_input_was_replaced(lab: Lab) -> None:
    """A table of one version is computed again from the same input, but not from its successor."""
    lab.apply(loads("drop"), sources=(DROP,))
    report(lab, "1")
    lab.store.operations.pause("load")
    lab.store.operations.request_run("load", full_refresh=True)
    lab.work_with(outputs)
    lab.report("drop", "2")
    with pytest.raises(ConfirmationError, match="'orders' has 100 rows of 1 version,"):
        lab.store.operations.request_run("load", full_refresh=True)
