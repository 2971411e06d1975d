"""Queries in files of their own, beside the definition that names them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest

from freshline.definitions.loading.project import load_project
from freshline.definitions.schema.workflow import Query, SparkSql, Workflow, workflow_json
from freshline.definitions.sql.files import MAX_BYTES
from tests.definitions.projects import loaded, mistakes, write

SOURCES = {"sources/s.yaml": "[{assetId: flights.raw}, {assetId: airports}]"}


def flow(job: str, consumes: str = "[{assetId: flights.raw}]", produces: str = "[{assetId: flights.clean}]") -> str:
    """Return a workflow with one SQL step."""
    return dedent(
        f"""\
        slug: clean
        steps:
          - id: only
            job: {{kind: spark.sql, {job}}}
            consumes: {consumes}
            produces: {produces}
        """
    )


def files(job: str = "sqlFile: clean.sql", **texts: str) -> dict[str, str]:
    """Write a project whose workflow is in a directory below `workflows/`, with files next to it."""
    beside = {f"workflows/air/{name.replace('_', '.')}": text for name, text in texts.items()}
    return {**SOURCES, "workflows/air/clean.yaml": flow(job), **beside}


def test_the_definition_carries_the_text_of_the_file(tmp_path: Path) -> None:
    """What is stored is what was applied: the text beside the path, seen from the root, and back again."""
    project = loaded(tmp_path, files(clean_sql="SELECT *\r\nFROM flights_raw -- all of it\n"))
    (workflow,) = project.workflows
    stored = workflow_json(workflow.definition)
    assert stored["steps"][0]["job"] == {
        "kind": "spark.sql",
        "sql": "SELECT *\nFROM flights_raw -- all of it\n",
        "sqlFile": "workflows/air/clean.sql",
    }
    again = Workflow.model_validate(json.loads(json.dumps(stored)))
    assert again == workflow.definition
    job = again.steps[0].job
    assert isinstance(job, SparkSql)
    assert job.queries(again.steps[0]) == {"flights.clean": Query(stored["steps"][0]["job"]["sql"], job.sql_file)}
    assert project.warnings == ()


def test_each_output_may_have_a_file(tmp_path: Path) -> None:
    """In `outputs` a query is a text or names a file, also one from elsewhere in the project."""
    job = "outputs: {one: {sqlFile: ../../queries/one.sql}, two: SELECT 2 AS a FROM flights_raw}"
    text = flow(job, produces="[{assetId: one}, {assetId: two}]")
    made = {**SOURCES, "workflows/air/a.yaml": text, "queries/one.sql": "\ufeffSELECT 1 AS a FROM flights_raw"}
    (workflow,) = loaded(tmp_path, made).workflows
    step = workflow.definition.steps[0]
    assert isinstance(step.job, SparkSql)
    assert step.job.queries(step) == {
        "one": Query("SELECT 1 AS a FROM flights_raw", "queries/one.sql"),
        "two": Query("SELECT 2 AS a FROM flights_raw"),
    }


def test_a_change_of_the_file_is_a_change_of_the_job(tmp_path: Path) -> None:
    """Other SQL is another job; a comment is another definition of the same job; in place it is the same job.

    See docs/semantics.md#R1.2.
    """
    first = loaded(tmp_path, files(clean_sql="SELECT a FROM flights_raw")).workflows[0]
    comment = loaded(tmp_path, files(clean_sql="SELECT a -- why\nFROM flights_raw")).workflows[0]
    other = loaded(tmp_path, files(clean_sql="SELECT b FROM flights_raw")).workflows[0]
    inline = loaded(tmp_path, files(job="sql: SELECT a FROM flights_raw")).workflows[0]
    assert comment.job_fingerprint == first.job_fingerprint == inline.job_fingerprint != other.job_fingerprint
    assert len({one.fingerprint for one in (first, comment, other, inline)}) == 4


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("sqlFile: ../../../secret.sql", "'sqlFile' is '../../../secret.sql'; it leads out of the project's directory"),
        ("sqlFile: a/../../../../b.sql", "it leads out of the project's directory"),
        ("sqlFile: /etc/passwd", "'sqlFile' is '/etc/passwd'; allowed are paths from the definition's file"),
        ('sqlFile: "a\\0.sql"', "NUL"),
        ("sqlFile: claen.sql", "file workflows/air/claen.sql does not exist; did you mean 'clean.sql'?"),
        ("sqlFile: clean.sql/x.sql", "workflows/air/clean.sql/x.sql cannot be read: Not a directory"),
        ("sqlFile: nowhere/x.sql", "file workflows/air/nowhere/x.sql does not exist"),
        ("sqlFile: ../air", "workflows/air is a directory"),
        ("sqlFile: pipe", "workflows/air/pipe is not a regular file"),
        ("sqlFile: out.sql", "'sqlFile' is 'out.sql'; it is a link that leads out of the project's directory"),
        ("sqlFile: dir/out.sql", "it is a link that leads out of the project's directory"),
        ("sqlFile: loop.sql", "workflows/air/loop.sql"),
        ("sqlFile: large.sql", f"workflows/air/large.sql has {MAX_BYTES + 1} bytes; allowed are {MAX_BYTES}"),
        ('sqlFile: ""', "'sqlFile' is \"\"; allowed are 1 or more characters"),
        ("sqlFile: 3", "'sqlFile' is 3; allowed are texts"),
        ("sqlFile: clean.sql, sql: SELECT 1", "both 'sql' and 'sqlFile' are given; keep one of them"),
        ("sqlFile: clean.sql, outputs: {}", "a spark.sql job has one of 'sql', 'sqlFile' and 'outputs'; here: two"),
        ("sqlfile: clean.sql", "unknown field 'sqlfile'; did you mean 'sqlFile'?"),
        ("outputs: {flights.clean: {sqlFile: no.sql}}", "file workflows/air/no.sql does not exist"),
        ("outputs: {flights.clean: {sqlFile: clean.sql, sql: SELECT 1}}", "both 'sql' and 'sqlFile' are given"),
        ("outputs: {flights.clean: {sql: SELECT 1}}", "field 'sqlFile' is missing"),
        ("outputs: {flights.clean: 3}", "'flights.clean' is 3; allowed are texts"),
        ("outputs: {flights.clean: {sqlFile: clean.sql, x: 1}}", "unknown field 'x'; known are sqlFile"),
    ],
)
def test_a_file_that_cannot_be_taken_is_told(tmp_path: Path, job: str, said: str) -> None:
    """One sentence with the value, what is allowed and the line of the definition."""
    root = tmp_path / "project"
    made = write(root, files(job, clean_sql="SELECT 1 AS a FROM flights_raw")) / "workflows/air"
    (tmp_path / "secret.sql").write_text("SELECT 1")
    (made / "out.sql").symlink_to(tmp_path / "secret.sql")
    (made / "dir").symlink_to(tmp_path)
    (tmp_path / "out.sql").write_text("SELECT 1")
    (made / "loop.sql").symlink_to(made / "loop.sql")
    (made / "large.sql").write_text("-" * (MAX_BYTES + 1))
    os.mkfifo(made / "pipe")
    (only,) = mistakes(root, {})
    assert only.startswith("workflows/air/clean.yaml:4: ")
    assert said in only


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"SELECT \xff", "workflows/air/clean.sql: step 'only': 'sqlFile' is 'clean.sql', which is not UTF-8 text"),
        (b"SELECT 1\n, '\0'", "workflows/air/clean.sql:2: step 'only': 'sqlFile' is 'clean.sql', which holds the char"),
        (b" \n", "workflows/air/clean.sql: step 'only': 'sqlFile' is 'clean.sql', which is empty"),
        (b"DROP TABLE x", "workflows/air/clean.sql: step 'only': the SQL starts with 'DROP'"),
        (
            b"SELECT a,\n       b\nFORM flights_raw x y",
            "workflows/air/clean.sql:3: step 'only': the SQL cannot be parsed: line 3, column 16 near 'flights_raw'",
        ),
        (
            b"SELECT *\nFROM flights_raw\n  JOIN airports USING (code)",
            "workflows/air/clean.sql:3: step 'only': column 8 of the SQL reads 'airports', which the step does not con",
        ),
    ],
)
def test_a_mistake_in_the_sql_names_the_file_and_the_line(tmp_path: Path, content: bytes, said: str) -> None:
    """What is wrong is in the .sql file, not in the definition."""
    write(tmp_path, files(clean_sql=""))
    (tmp_path / "workflows/air/clean.sql").write_bytes(content)
    (only,) = mistakes(tmp_path, {})
    assert only.startswith(said)


def test_a_link_inside_the_project_is_followed(tmp_path: Path) -> None:
    """Several workflows may share a file."""
    write(tmp_path, files(job="sqlFile: link.sql", clean_sql="SELECT 1 AS a FROM flights_raw"))
    (tmp_path / "workflows/air/link.sql").symlink_to("clean.sql")
    (workflow,) = load_project(tmp_path).workflows
    job = workflow.definition.steps[0].job
    assert isinstance(job, SparkSql)
    assert job.sql_file == "workflows/air/link.sql"


def test_the_project_may_be_behind_a_link(tmp_path: Path) -> None:
    """The root itself is where it leads to."""
    write(tmp_path / "real", files(clean_sql="SELECT 1 AS a FROM flights_raw"))
    (tmp_path / "link").symlink_to("real")
    assert len(load_project(tmp_path / "link").workflows) == 1
