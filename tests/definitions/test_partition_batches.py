"""What keeps a step from computing several partitions in one run, and the parameters of partitions in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.definitions.projects import JOBS, loaded, mistakes

SOURCES = "- assetId: days\n  partitioning: {time: day, start: 2024-01-01}\n"
PYTHON = "{kind: python, entrypoint: jobs:run}"


def project(job: str, consumes: str = "", produces: str = "", batch: str = "batch: true\n    ") -> dict[str, str]:
    """Return a project with one workflow of one step. The job is in line 4, `batch` in line 5."""
    partitioning = "" if "partitioning" in produces else ", partitioning: {time: day, start: 2024-01-01}"
    text = (
        f"slug: sales\nsteps:\n  - id: daily\n    job: {job}\n    {batch}"
        f"consumes: [{{assetId: days{consumes}}}]\n    produces: [{{assetId: sales{partitioning}{produces}}}]\n"
    )
    return {**JOBS, "sources/all.yaml": SOURCES, "workflows/sales.yaml": text}


def sql(query: str) -> str:
    """Return a job."""
    return f"{{kind: spark.sql, sql: {query!r}}}"


@pytest.mark.parametrize(
    ("job", "consumes", "produces", "reason"),
    [
        (
            PYTHON,
            ", partitions: {window: {from: -6, to: 0}}",
            "",
            "with the window of 'days': each partition reads other",
        ),
        (PYTHON, ", rows: new", "", "with 'rows: new' of 'days': each partition has read other rows"),
        (PYTHON, "", ", table: {mode: append}", "with table mode 'append': a run replaces its partitions"),
        (PYTHON, "", ", table: {mode: merge, keys: [id]}", "with table mode 'merge': a run replaces its partitions"),
        (
            PYTHON,
            "}, {assetId: sales, partitions: {window: {from: -1, to: -1}}",
            "",
            "for a step that reads its own output 'sales': partitions would need each other",
        ),
        (
            sql("SELECT * FROM days WHERE d = :partition_key"),
            "",
            "",
            "with :partition_key in the SQL, which has one value",
        ),
        (
            sql("SELECT id, 1 AS n FROM days"),
            "",
            "",
            "without the column 'day' in the SQL, which says where a row belongs",
        ),
    ],
)
def test_steps_that_cannot_be_batched(tmp_path: Path, job: str, consumes: str, produces: str, reason: str) -> None:
    """Each reason is refused at the line of `batch`, with the line of what is in the way."""
    found = mistakes(tmp_path, project(job, consumes, produces))
    assert any(
        one.startswith(f"workflows/sales.yaml:5: step 'daily': 'batch' is not possible {reason}") for one in found
    )
    assert all("(see workflows/sales.yaml:" in one for one in found)


@pytest.mark.parametrize(
    "job",
    [PYTHON, sql("SELECT * FROM days"), sql("SELECT Day, n FROM days"), sql("SELECT ':partition_key', day FROM days")],
)
def test_steps_that_can_be_batched(tmp_path: Path, job: str) -> None:
    """The policy says so. Columns that follow from the inputs are not known before the run."""
    found = loaded(tmp_path, project(job))
    assert [one.policy.batch for one in found.workflows] == [True]


def test_a_batch_needs_partitions(tmp_path: Path) -> None:
    """`batch` on a workflow without partitions is refused."""
    text = project(PYTHON)["workflows/sales.yaml"].replace(", partitioning: {time: day, start: 2024-01-01}", "")
    (found,) = mistakes(tmp_path, {**project(PYTHON), "workflows/sales.yaml": text})
    assert found.endswith("'batch' has no effect on a workflow without partitions; remove it")


@pytest.mark.parametrize(
    ("query", "produces", "message"),
    [
        ("SELECT * FROM days WHERE d >= :partition_start AND d < :partition_end", "", None),
        ("SELECT :partition_key AS k FROM days", ", partitioning: {keys: [eu]}", None),
        (
            "SELECT * FROM days WHERE d >= :partition_start",
            ", partitioning: {keys: [eu]}",
            (
                "the SQL uses :partition_start; it needs partitions by time, and the outputs have fixed keys; use "
                ":partition_key"
            ),
        ),
    ],
)
def test_parameters_of_partitions(tmp_path: Path, query: str, produces: str, message: str | None) -> None:
    """Workflows with partitions have the key, and those by time also the two ends of the window."""
    given = project(sql(query), ", partitions: all" if produces else "", produces, batch="")
    if message is None:
        loaded(tmp_path, given)
    else:
        assert mistakes(tmp_path, given) == [f"workflows/sales.yaml:4: step 'daily': {message}"]


PLAIN = "slug: plain\n{}steps: [{{id: a, job: {}, produces: [{{assetId: plain}}]}}]\n"


def test_other_workflows_have_no_such_parameters(tmp_path: Path) -> None:
    """Elsewhere they have no value, unless the workflow declares a parameter with this name itself."""
    job = sql("SELECT :partition_key AS k")
    assert mistakes(tmp_path, {"workflows/plain.yaml": PLAIN.format("", job)}) == [
        (
            "workflows/plain.yaml:2: step 'a': the SQL uses :partition_key; it has a value only in a workflow whose "
            "outputs have 'partitioning'"
        )
    ]
    loaded(tmp_path, {"workflows/plain.yaml": PLAIN.format("parameters: {partition_key: x}\n", job)})


def test_names_of_these_parameters_are_reserved(tmp_path: Path) -> None:
    """A workflow with partitions cannot declare them: two values would compete."""
    given = project(PYTHON, batch="")
    given["workflows/sales.yaml"] += "parameters: {partition_key: x}\n"
    (found,) = mistakes(tmp_path, given)
    assert found.startswith("workflows/sales.yaml:7: workflow 'sales': parameter 'partition_key' is set by Freshline")
