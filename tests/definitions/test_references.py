"""What must fit together over the files of a project, with the place of both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from freshline.definitions.loading.project import Limits, load_project
from freshline.errors import DefinitionErrors
from tests.definitions.projects import JOBS, loaded, minimal, mistakes, write


def flows(**texts: str) -> dict[str, str]:
    """Workflow files by name, with the jobs that they call."""
    return {**JOBS, **{f"workflows/{name}.yaml": text for name, text in texts.items()}}


def test_a_cycle_over_workflows_is_refused_with_its_path(tmp_path: Path) -> None:
    """Workflows that wait for each other are refused, whatever their number."""
    found = mistakes(
        tmp_path, flows(a=minimal("a", consumes="c"), b=minimal("b", consumes="a"), c=minimal("c", consumes="b"))
    )
    assert found == [
        (
            "workflows/a.yaml:1: workflow 'a': workflows wait for each other: a -> b -> c -> a; "
            "remove one of these dependencies; b at workflows/b.yaml:1, c at workflows/c.yaml:1"
        )
    ]


def test_every_cycle_is_told(tmp_path: Path) -> None:
    """Two separate cycles are two errors of one load."""
    pairs = {name: minimal(name, consumes=other) for name, other in (("a", "b"), ("b", "a"), ("x", "y"), ("y", "x"))}
    found = mistakes(tmp_path, flows(**pairs))
    assert ["a -> b -> a" in found[0], "x -> y -> x" in found[1], len(found)] == [True, True, 2]


def test_a_workflow_may_read_its_own_previous_output(tmp_path: Path) -> None:
    """A workflow that consumes its own output is not a cycle (docs/semantics.md#R1.3)."""
    project = loaded(tmp_path, flows(a=minimal("a", consumes="a")))
    assert project.workflows[0].policy.inputs == ()


def test_an_asset_has_one_producer(tmp_path: Path) -> None:
    """The second producer is refused, with the place of the first."""
    found = mistakes(tmp_path, flows(a=minimal("a", produces="x"), b=minimal("b", produces="x")))
    assert found == [
        (
            "workflows/b.yaml:6: asset 'x': is produced by 'a' and by 'b'; an asset has one producer "
            "(see workflows/a.yaml:6)"
        )
    ]


def test_an_asset_is_produced_once_in_a_workflow(tmp_path: Path) -> None:
    """Two steps of one workflow cannot make the same asset."""
    text = minimal("a", produces="x") + minimal("a", produces="x").partition("steps:\n")[2].replace("only", "also")
    assert mistakes(tmp_path, flows(a=text)) == [
        "workflows/a.yaml:10: asset 'x': is produced twice in this workflow; keep one (see workflows/a.yaml:6)"
    ]


def test_slugs_are_unique(tmp_path: Path) -> None:
    """A second workflow of the same slug is refused, also in the same file."""
    text = minimal("a", produces="x") + "---\n" + minimal("a", produces="y")
    assert mistakes(tmp_path, flows(a=text)) == [
        (
            "workflows/a.yaml:8: workflow 'a': slug 'a' is taken by another workflow; choose another "
            "(see workflows/a.yaml:1)"
        )
    ]


def test_ids_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    """Sales.daily and sales.daily would be one table on some file systems."""
    found = mistakes(tmp_path, flows(a=minimal("a", produces="sales.daily"), b=minimal("b", consumes="Sales.daily")))
    assert found == [
        (
            "workflows/b.yaml:5: asset 'Sales.daily': differs from 'sales.daily' only in case; write both the same "
            "(see workflows/a.yaml:6)"
        )
    ]


def test_a_source_that_a_workflow_produces_is_refused(tmp_path: Path) -> None:
    """An asset comes from outside or from a workflow, not from both; nor is it declared twice."""
    sources = "- assetId: a\n- assetId: s\n- assetId: s\n"
    assert mistakes(tmp_path, {**flows(a=minimal("a")), "sources/all.yaml": sources}) == [
        (
            "sources/all.yaml:1: asset 'a': is a source, but workflow 'a' produces it; remove one of them "
            "(see workflows/a.yaml:6)"
        ),
        "sources/all.yaml:3: asset 's': is declared as a source twice; keep one (see sources/all.yaml:2)",
    ]


def test_step_ids_are_unique_and_steps_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Duplicate steps and cycles among steps are refused."""
    step = "  - {{id: {}, job: {{kind: python, entrypoint: 'jobs:run'}}, dependsOn: [{}]}}\n"
    cycle = "slug: a\nsteps:\n" + step.format("x", "z") + step.format("y", "x") + step.format("z", "y")
    twice = "slug: b\nsteps:\n" + step.format("x", "") + step.format("x", "")
    assert mistakes(tmp_path, flows(a=cycle, b=twice)) == [
        "workflows/a.yaml:2: workflow 'a': steps wait for each other: x -> y -> z -> x",
        "workflows/b.yaml:4: step 'x': step id 'x' is taken; choose another (see workflows/b.yaml:3)",
    ]


def test_an_undeclared_input_is_a_warning_and_strictly_an_error(tmp_path: Path) -> None:
    """The error of an undeclared input names the most similar asset (docs/semantics.md#R3.2)."""
    files = flows(a=minimal("a", produces="flights.clean"), b=minimal("b", consumes="flights.claen other"))
    sentences = (
        (
            "workflows/b.yaml:5: asset 'flights.claen': is neither produced nor a declared source; "
            "did you mean 'flights.clean'?"
        ),
        "workflows/b.yaml:5: asset 'other': is neither produced nor a declared source; declare it in sources/*.yaml",
    )
    assert loaded(tmp_path, files).warnings == sentences
    assert tuple(mistakes(tmp_path, files, strict=True)) == sentences


def test_a_broken_producer_does_not_make_its_consumers_wrong(tmp_path: Path) -> None:
    """One mistake is one error: the asset of a workflow with a mistake is still known."""
    broken = minimal("a").replace("slug: a", "slug: a\nmine: 1")
    assert len(mistakes(tmp_path, flows(a=broken, b=minimal("b", consumes="a")), strict=True)) == 1


def test_idle_fields_on_an_input_are_warned_about(tmp_path: Path) -> None:
    """Only onUpstreamUpdate has an effect on an input (docs/semantics.md#R2.3)."""
    block = "{assetId: s, autoMaterialize: {onUpstreamUpdate: true, priority: 3, debounce: 1s}}"
    text = minimal("a").replace("consumes: []", f"consumes: [{block}]")
    project = loaded(tmp_path, {**flows(a=text), "sources/s.json": '{"assetId": "s"}'})
    assert project.warnings == (
        "workflows/a.yaml:5: asset 's': 'debounceMs', 'priority' of an input's autoMaterialize has no effect",
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window(ts, '1 hour').start AS hour FROM s GROUP BY window(ts, '1 hour')",
        "FROM s |> WHERE a > :least |> SELECT a",
        "SELECT a >>> 2 FROM s -- unchecked",
        "SELECT * EXCEPT (a) FROM s LATERAL VIEW explode(b) e AS c",
        "(SELECT a FROM s) UNION ALL SELECT a:b.c FROM s;",
        "-- a comment\n/* and another */ WITH v AS (VALUES (1), (2)) SELECT * FROM v, s",
    ],
)
def test_sql_that_spark_takes_is_taken(tmp_path: Path, sql: str) -> None:
    """Only what clearly cannot be parsed is refused."""
    step = {"id": "x", "job": {"kind": "spark.sql", "sql": sql}, "consumes": [{"assetId": "s"}]}
    body = json.dumps({"slug": "a", "steps": [{**step, "produces": [{"assetId": "a"}]}]})
    assert loaded(tmp_path, {"workflows/a.json": body, "sources/s.yaml": "assetId: s"}).warnings == ()


def test_limits_are_told(tmp_path: Path) -> None:
    """Too many definitions and too large files are refused, not read."""
    files = flows(a=minimal("a") + "---\n" + minimal("b"), **{"0": "# " + "x" * 500})
    with pytest.raises(DefinitionErrors) as caught:
        load_project(write(tmp_path, files), limits=Limits(file_bytes=400, definitions=1))
    assert [str(error) for error in caught.value.errors] == [
        "workflows/0.yaml: the file has 502 bytes; allowed are 400; split it",
        "workflows/a.yaml:8: more than 1 definitions in workflows/; split the project",
    ]


def test_new_rows_of_a_source_without_increments_are_warned_about(tmp_path: Path) -> None:
    """With both places, and what to declare. An append source has increments."""
    consumes = "{assetId: drop, rows: new}, {assetId: files, rows: new}"
    text = minimal("a", consumes="X").replace("{assetId: X}", consumes).replace("{ assetId: X }", consumes)
    sources = {"sources/all.yaml": "- assetId: files\n  mode: append\n- assetId: drop\n"}
    (warning,) = loaded(tmp_path, {**flows(a=text), **sources}).warnings
    assert "rows" in warning
    assert "each report of this source replaces its data" in warning
    assert "declare 'mode: append' for the source (see sources/all.yaml:3)" in warning


REBUILT = """
slug: a
steps:
  - id: one
    job: {kind: python, entrypoint: jobs:work}
    consumes: [{assetId: drop}]
    produces:
      - assetId: a
        table: {mode: append, onCodeChange: rebuild}
      - assetId: b
        table: {mode: merge, keys: [id], onCodeChange: rebuild}
"""


def test_a_rebuild_that_would_lose_rows_is_warned_about(tmp_path: Path) -> None:
    """An input with only its newest version cannot give the rows of earlier ones again."""
    files = {**flows(a=REBUILT), "jobs.py": "def work(ctx): ...", "sources/all.yaml": "assetId: drop"}
    found = loaded(tmp_path, files).warnings
    assert [one.partition(": asset")[0] for one in found] == ["workflows/a.yaml:9", "workflows/a.yaml:11"]
    assert "the input 'drop' holds only its newest version" in found[0]
    files["sources/all.yaml"] = "assetId: drop\nmode: append"
    assert loaded(tmp_path, files).warnings == ()


def test_a_workflow_is_rebuilt_as_a_whole(tmp_path: Path) -> None:
    """One table with `rebuild` beside one without it is refused, with both lines."""
    files = {**flows(a=REBUILT.replace("keys: [id], onCodeChange: rebuild", "keys: [id], onCodeChange: keep")),
             "jobs.py": "def work(ctx): ...", "sources/all.yaml": "assetId: drop\nmode: append"}  # fmt: skip
    (mistake,) = mistakes(tmp_path, files)
    assert mistake.startswith("workflows/a.yaml:11: asset 'b': 'onCodeChange' is 'keep', and that of 'a' is 'rebuild'")
    assert "workflows/a.yaml:9" in mistake
