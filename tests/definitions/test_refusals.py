"""Every mistake in one definition gets one sentence with its file, its line, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.definitions.projects import JOBS, mistakes

HEAD = "slug: sales\nsteps:\n  - id: daily\n    job: {kind: spark.sql, sql: SELECT 1 AS x}\n"
OUTPUT = HEAD + "    produces:\n      - assetId: sales.daily\n"  # line 6
IN_OUTPUT = {
    "freshness: {ttlMs: false}": "'ttlMs' is false; allowed are whole numbers",
    'freshness: {ttlMs: "5"}': "'ttlMs' is \"5\"; allowed are whole numbers",
    "freshness: {ttlMs: 1.5}": "'ttlMs' is 1.5; allowed are whole numbers",
    "freshness: {ttlMs: 0}": "'ttlMs' is 0; allowed are 1 or more",
    "freshness: {ttlMs: 900000000000}": "'ttlMs' is 900000000000; allowed are 316224000000 or less",
    "freshness: {ttlms: 5}": "unknown field 'ttlms'; did you mean 'ttlMs'?",
    "freshness: {ttl: 5}": "'ttl' '5' is not a duration; allowed are numbers with ms, s, m, h, d, w: 90s, 1h30m",
    "freshness: {ttl: 1 fortnight}": "'ttl' '1 fortnight' is not a duration; "
    "allowed are numbers with ms, s, m, h, d, w: 90s, 1h30m",
    "freshness: {ttl: 1h, ttlMs: 5}": "both 'ttl' and 'ttlMs' are given; keep one of them",
    "freshness: {cron: 61 * * * *}": "cron '61 * * * *' has minute 61; allowed are 0-59",
    "freshness: {cron: 0 24 * * *}": "cron '0 24 * * *' has hour 24; allowed are 0-23",
    "freshness: {cron: 0 0 * * 8}": "cron '0 0 * * 8' has day-of-week 8; "
    "allowed are 0-7 or SUN-SAT (0 and 7 are Sunday)",
    "freshness: {cron: 0 0 30 2 *}": "cron '0 0 30 2 *' has day-of-month 30; "
    "allowed are 1-31 or L, and a day that the month has",
    "freshness: {cron: 0 0 * * * *}": "cron '0 0 * * * *' has 6 fields; allowed are 5: minute hour day month weekday",
    "freshness: {cron: 0 6 * * *, timezone: Europe/Vinna}": "'Europe/Vinna' is not a time zone; "
    "allowed are names such as Europe/Vienna; did you mean 'Europe/Vienna'?",
    "freshness: {ttl: 1h, timezone: UTC}": "'timezone' has no effect without 'cron'; add 'cron' or remove it",
    "freshness: {ttl: 1h, offset: 5m}": "'offsetMs' has no effect without 'cadenceMs'; add 'cadenceMs' or remove it",
    "autoMaterialize: {priority: 1.5}": "'priority' is 1.5; allowed are whole numbers",
    "autoMaterialize: {priority: -1}": "'priority' is -1; allowed are 0 or more",
    "autoMaterialize: {onUpstreamUpdate: 1}": "'onUpstreamUpdate' is 1; allowed are true and false",
    "autoMaterialize: {onUpstreamUpdate: yes}": "'onUpstreamUpdate' is \"yes\"; allowed are true and false",
    "autoMaterialize: {when: some}": "'when' is \"some\"; allowed are 'any' or 'all'",
    "autoMaterialize: {on_upstream_updates: true}": "unknown field 'on_upstream_updates'; "
    "did you mean 'onUpstreamUpdate'?",
    "autoMaterialize: {debounce: 1m, maxDelay: 10s}": "'maxDelayMs' is 10000; allowed is 60000 (debounceMs) or more",
    "autoMaterialize: true": "'autoMaterialize' is true; allowed are blocks of fields",
    "checks: [{notNull: a}]": "'notNull' is \"a\"; allowed are lists",
    "checks: [{notNull: []}]": "'notNull' is []; allowed are 1 or more items",
    "checks: [{}]": "a check has exactly one of notNull, unique, minRows, maxRows, accepted, range, sql, freshRows; "
    "here: none",
    "checks: [{minRows: 1, unique: [a]}]": "a check has exactly one of notNull, unique, minRows, maxRows, accepted, "
    "range, sql, freshRows; here: unique, minRows",
    "checks: [{minRows: -1}]": "'minRows' is -1; allowed are 0 or more",
    "checks: [{minRows: 1, severity: bad}]": "'severity' is \"bad\"; allowed are 'error' or 'warn'",
    "checks: [{range: {column: a}}]": "a range needs 'min' or 'max' or both",
    "checks: [{range: {column: a, min: 2, max: 1}}]": "'min' is 2; allowed is 1 (max) or less",
    "checks: [{range: {column: a, min: 2, max: b}}]": "'min' is 2 and 'max' is 'b'; "
    "allowed are two numbers or two texts",
    "checks: [{range: {column: a, min: []}}]": "'min' is []; allowed are whole numbers, numbers, texts",
    "checks: [{accepted: {column: a, values: []}}]": "'values' is []; allowed are 1 or more items",
    "checks: [{freshRows: {column: a}}]": "field 'maxAgeMs' is missing",
    "table: {mode: merge}": "table mode 'merge' needs 'keys': the columns that identify a row",
    "table: {keys: [a]}": "'keys' have no effect in table mode 'overwrite'; use mode 'merge' or remove them",
    "table: {onCodeChange: keep}": "'onCodeChange' has no effect in table mode 'overwrite': every run computes all "
    "rows; use mode 'append' or 'merge', or remove it",
    "table: {mode: append, onCodeChange: drop}": "'onCodeChange' is \"drop\"; allowed are 'rebuild', 'keep' or 'ask'",
    "table: {partitionBy: [a, A]}": "'partitionBy' names a column twice: a, A",
    "table: {mode: replace}": "'mode' is \"replace\"; allowed are 'overwrite', 'append' or 'merge'",
    "dataVersion: {source: none, digits: 3}": "'digits' has no effect with source 'none'; "
    "use 'fingerprint' or remove it",
    "schemaChange: never": "'schemaChange' is \"never\"; allowed are 'evolve' or 'strict'",
    "schema: text": "'schema' is \"text\"; allowed are blocks of fields",
}


@pytest.mark.parametrize(("field", "message"), IN_OUTPUT.items())
def test_mistakes_in_an_output_name_the_asset(tmp_path: Path, field: str, message: str) -> None:
    """A wrong field of a produced asset is refused at its line, with its value and what is allowed."""
    found = mistakes(tmp_path, {"workflows/sales.yaml": OUTPUT + f"        {field}\n"})
    assert found == [f"workflows/sales.yaml:7: asset 'sales.daily': {message}"]


IN_STEP = {
    "dependsOn: [dayly]": "'dependsOn' names the unknown step 'dayly'; did you mean 'daily'?",
    "dependsOn: [daily]": "step 'daily' depends on itself; remove it",
    "dependsOn: daily": "'dependsOn' is \"daily\"; allowed are lists",
    "retry: {maxAttempts: 0}": "'maxAttempts' is 0; allowed are 1 or more",
    "retry: {on: sometimes}": "'on' is \"sometimes\"; allowed are 'transient' or 'any', lists",
    "retry: {attempts: 3}": "unknown field 'attempts'; did you mean 'maxAttempts'?",
    "timeout: never": "'timeout' 'never' is not a duration; allowed are numbers with ms, s, m, h, d, w: 90s, 1h30m",
    "type: service": "'type' is \"service\"; allowed are 'job'",
    "produce: []": "unknown field 'produce'; did you mean 'produces'?",
}


@pytest.mark.parametrize(("field", "message"), IN_STEP.items())
def test_mistakes_in_a_step_name_the_step(tmp_path: Path, field: str, message: str) -> None:
    """A wrong field of a step is refused at its line."""
    text = HEAD + f"    {field}\n    produces: [{{assetId: sales.daily}}]\n"
    assert mistakes(tmp_path, {"workflows/sales.yaml": text}) == [f"workflows/sales.yaml:5: step 'daily': {message}"]


IN_WORKFLOW = {
    "pool: big": "'pool' names 'big', which freshline.toml does not; it has none; add it under [pools] with its limit",
    "pool: a b": "'a b' is not a pool's name; allowed are 1-100 letters, digits and . _ -, a letter or digit first",
    "maxConcurrency: 0": "'maxConcurrency' is 0; allowed are 1 or more",
    "quietHours: [{from: 25:00, to: 06:00}]": "'25:00' is not a time of day; allowed are 00:00-23:59",
    "quietHours: [{from: 22:00, to: 06:00, days: [monday]}]": "'days[0]' is \"monday\"; "
    "allowed are 'mon', 'tue', 'wed', 'thu', 'fri', 'sat' or 'sun'",
    "quietHours: [{from: 22:00}]": "field 'to' is missing",
    "secrets: [a-b]": "'a-b' is not the name of a secret; "
    "allowed are letters, digits and _, no digit first, as in DATABASE_PASSWORD",
    "backoff: {baseMs: 10, maxMs: 5}": "'maxMs' is 5; allowed is 10 (baseMs) or more",
    "backoff: {budget: 0}": "'budget' is 0; allowed are 1 or more",
    "parameters: [a]": "'parameters' is [\"a\"]; allowed are blocks of fields",
    "publishParameters: 1": "'publishParameters' is 1; allowed are true and false",
    "spark: {size: huge}": "'size' is \"huge\"; allowed are 'small' or 'large'",
    "spark: {conf: {sql.shuffle.partitions: 8}}": "'sql.shuffle.partitions' is not a setting of Spark; "
    "allowed are names as in spark.sql.shuffle.partitions",
    "spark: {conf: {spark.sql.shuffle.partitions: [8]}}": "'spark.sql.shuffle.partitions' is [8]; allowed are texts",
    "spark: {conf: {spark.driver.memory: 8g}}": "'spark.driver.memory' cannot be set while Spark runs; "
    "with 'size: large' the workflow gets a separate runner that starts with it",
    "spark: {conf: {spark.sql.extensions: x}}": "'spark.sql.extensions' cannot be set while Spark runs; "
    "with 'size: large' the workflow gets a separate runner that starts with it",
    "spark: {size: large, conf: {spark.master: yarn}}": "'spark.master' is Freshline's own: "
    "where Spark runs is FRESHLINE_SPARK_MASTER of the worker; remove it",
    "spark: {conf: {spark.sql.session.timeZone: CET}}": "'spark.sql.session.timeZone' is Freshline's own: "
    "every run computes in UTC; convert in the query; remove it",
    "spark: {size: large, conf: {spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version: 2}}": ""
    "'spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version' is Freshline's own: "
    "a table must become visible as a whole; remove it",
    "spark: {size: large, conf: {spark.hadoop.fs.s3a.access.key: x}}": "'spark.hadoop.fs.s3a.access.key' looks like "
    "a credential, and definitions are stored and shown; "
    "put it into spark-defaults.conf of the worker or of the cluster",
    "zzzz: 1": "unknown field 'zzzz'; known are slug, description, steps, parameters, pool, maxConcurrency, backoff, "
    "quietHours, secrets, publishParameters, spark",
}


@pytest.mark.parametrize(("field", "message"), IN_WORKFLOW.items())
def test_mistakes_in_a_workflow_name_the_workflow(tmp_path: Path, field: str, message: str) -> None:
    """A wrong field of a workflow is refused at its line."""
    text = OUTPUT + f"{field}\n"
    assert mistakes(tmp_path, {"workflows/sales.yaml": text}) == [
        f"workflows/sales.yaml:7: workflow 'sales': {message}"
    ]


JOB = {
    "{kind: spark.sq, sql: SELECT 1}": "'kind' is \"spark.sq\"; allowed are spark.sql, spark.python, python; "
    "did you mean 'spark.sql'?",
    "{sql: SELECT 1}": "field 'kind' is missing; allowed are spark.sql, spark.python, python",
    "{kind: spark.sql}": "a spark.sql job has one of 'sql', 'sqlFile' and 'outputs'; here: none",
    "{kind: spark.sql, sql: SELECT 1, outputs: {a: SELECT 1}}": "a spark.sql job has one of 'sql', 'sqlFile' and "
    "'outputs'; here: two",
    "{kind: spark.sql, sql: SELEC 1}": "the SQL starts with 'SELEC'; allowed are queries: SELECT, WITH, FROM, VALUES",
    "{kind: spark.sql, sql: DROP TABLE x}": "the SQL starts with 'DROP'; "
    "allowed are queries: SELECT, WITH, FROM, VALUES",
    "{kind: spark.sql, sql: -- nothing}": "the SQL starts with 'nothing'; "
    "allowed are queries: SELECT, WITH, FROM, VALUES",
    "{kind: spark.sql, sql: SELECT 1; SELECT 2}": "the SQL has 2 statements; allowed is one query",
    '{kind: spark.sql, sql: "SELECT a\\nFORM t u v"}': "the SQL cannot be parsed: line 2, column 6 near 't': "
    "Invalid expression / Unexpected token; if Spark takes it, write the comment '-- unchecked' into it",
    "{kind: spark.sql, sql: SELECT 'a}": "the SQL cannot be parsed: a quote, a comment or a bracket is not closed; "
    "if Spark takes it, write the comment '-- unchecked' into it",
    "{kind: spark.sql, outputs: {sales.dayly: SELECT 1, sales.daily: SELECT 1}}": "'outputs' names 'sales.dayly', "
    "which 'produces' does not; did you mean 'sales.daily'?",
    "{kind: spark.python}": "field 'entrypoint' is missing",
    "{kind: spark.python, entrypoint: jobs.run}": "'jobs.run' is not an entry point; "
    "allowed are package.module:function, as in jobs.clean:run",
    "{kind: python, entrypoint: 'jobs:rum'}": "entrypoint 'jobs:rum': jobs.py has no function 'rum'; "
    "did you mean 'run'?",
    "{kind: python, entrypoint: 'job:run'}": "entrypoint 'job:run': module 'job' does not exist; "
    "looked for job.py and job/__init__.py in the project",
    "{kind: python, entrypoint: 'json.absent:run'}": "entrypoint 'json.absent:run': module 'json.absent' does not exist"
    "; looked for json/absent.py and json/absent/__init__.py in the project",
    "{kind: python, entrypoint: 'more:none'}": "entrypoint 'more:none': more.py:1 takes 0 arguments; "
    "a job function takes one, ctx",
    "{kind: python, entrypoint: 'more:two'}": "entrypoint 'more:two': more.py:2 takes 2 arguments; "
    "a job function takes one, ctx",
    "{kind: python, entrypoint: 'more:later'}": "entrypoint 'more:later': more.py:3 is an async function; "
    "allowed are plain functions",
    "{kind: python, entrypoint: 'broken:run'}": "entrypoint 'broken:run': broken.py:1 cannot be parsed: "
    "'(' was never closed",
}
CODE = {
    **JOBS,
    "more.py": "def none(): ...\ndef two(a, b): ...\nasync def later(ctx): ...\n",
    "broken.py": "def run(ctx:\n",
}


@pytest.mark.parametrize(("job", "message"), JOB.items())
def test_mistakes_in_a_job_are_refused(tmp_path: Path, job: str, message: str) -> None:
    """A job that cannot work is refused before it runs."""
    text = f"slug: sales\nsteps:\n  - id: daily\n    job: {job}\n    produces: [{{assetId: sales.daily}}]\n"
    found = mistakes(tmp_path, {**CODE, "workflows/sales.yaml": text})
    assert found == [f"workflows/sales.yaml:4: step 'daily': {message}"]


WHOLE = {
    "slug: Sales": "1: workflow 'Sales': 'Sales' is not a slug; "
    "allowed are 1-100 lower-case letters, digits and - _, a letter or digit first",
    "slug: 5": "1: 'slug' is 5; allowed are texts",
    "slug: a\nslug: b": "2: field 'slug' is given twice; keep one",
    "- a": '1: is ["a"]; a workflow is a block of fields',
    "just text": '1: is "just text"; a workflow is a block of fields',
    "slug: [a": "1: cannot be read as YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'",
    "slug: !!python/object a": "1: the tag 'python/object' is not known here; remove it",
    "slug: !mine a": "1: the tag '!mine' is not known here; remove it",
    "slug: .inf": "1: '.inf' is not a finite number; allowed are numbers that JSON has",
    'slug: "a\\0b"': "1: a text holds the character NUL or half a surrogate pair; remove it",
    "? [a, b]\n: c": "1: the name of a field must be a text",
    "<<: 5": "1: '<<' takes a block of fields or a list of them",
    "slug: &a [*a]": "1: is nested deeper than 60 levels",
    "slug: *nobody": "1: cannot be read as YAML: found undefined alias 'nobody'",
    "slug: a\n\tsteps: []": "2: cannot be read as YAML: while scanning for the next token "
    "found character '\\t' that cannot start any token",
}


@pytest.mark.parametrize(("text", "message"), WHOLE.items())
def test_files_that_cannot_be_read_are_refused_at_their_line(tmp_path: Path, text: str, message: str) -> None:
    """A document that is not a workflow is an error with its line."""
    steps = "" if text.startswith(("-", "just", "slug: [", "slug: a\n\t")) else f"\n{HEAD[12:]}"
    found = mistakes(tmp_path, {"workflows/sales.yaml": text + steps})
    assert found[0] == f"workflows/sales.yaml:{message}"


INSIDE = {
    "    produces: [{assetId: a}, {assetId: b}]": "4: step 'x': one 'sql' cannot make 2 assets (a, b); use 'outputs'",
    "    produces: []": "4: step 'x': a spark.sql job needs an asset in 'produces'; its result would go nowhere",
    "    produces: [{assetId: a b}]": "5: asset 'a b': 'a b' is not an asset id; "
    "allowed are 1-200 letters, digits and . _ : -, a letter or digit first",
    "    produces: [{assetId: a}]\n    consumes: [{assetId: b.c}, {assetId: d, as: B_C}]": "6: asset 'd': "
    "is read as the view 'B_C', and so is 'b.c'; give one of them 'as' (see workflows/w.yaml:6)",
    "    produces: [{}]": "5: step 'x': field 'assetId' is missing",
    "    produces: [{assetId: a}]\n    consumes: [{assetId: b.c}, {assetId: b-c}]": "6: asset 'b-c': "
    "is read as the view 'b_c', and so is 'b.c'; give one of them 'as' (see workflows/w.yaml:6)",
    "    produces: [{assetId: a}]\n    consumes: [{assetId: b}, {assetId: b, as: c}]": "6: asset 'b': "
    "is consumed twice by one step; keep one (see workflows/w.yaml:6)",
    "    produces: [{assetId: a}]\n    consumes: [{assetId: b, as: 1x}]": "6: asset 'b': '1x' is not a view name; "
    "allowed are letters, digits and _, no digit first",
    "    produces: [{assetId: a}]\n    consumes: [{assetId: b, freshness: {ttl: 1h}}]": "6: asset 'b': "
    "unknown field 'ttl'; known are maxAgeMs, maxAge",
}


@pytest.mark.parametrize(("lines", "message"), INSIDE.items())
def test_what_does_not_fit_inside_a_step_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    """Inputs, outputs and queries of a step must fit together."""
    text = f"slug: w\nsteps:\n  - id: x\n    job: {{kind: spark.sql, sql: SELECT 1}}\n{lines}\n"
    assert f"workflows/w.yaml:{message}" in mistakes(tmp_path, {"workflows/w.yaml": text})


def test_every_output_has_a_query(tmp_path: Path) -> None:
    """An asset that `outputs` forgets would never be made, unless it is optional."""
    text = HEAD.replace("sql: SELECT 1 AS x", "outputs: {a: SELECT 1}")
    text += "    produces: [{assetId: a}, {assetId: b}, {assetId: c, optional: true}]\n"
    assert mistakes(tmp_path, {"workflows/w.yaml": text}) == [
        "workflows/w.yaml:5: asset 'b': has no query in 'outputs' of its job; add one"
    ]


def test_all_mistakes_are_told_at_once_and_in_order(tmp_path: Path) -> None:
    """One load names every mistake of every file, by file and line."""
    files = {
        "workflows/b.yaml": OUTPUT + "        optional: 1\n        freshness: {ttl: x}\n",
        "workflows/a.yaml": "slug: A\nsteps: []\n",
        "sources/s.yaml": "- assetId: s\n- asetId: t\n- {assetId: u, path: x}\n",
    }
    found = [line.split(" ")[0] for line in mistakes(tmp_path, files)]
    assert found == [
        "sources/s.yaml:2:",
        "sources/s.yaml:2:",
        "sources/s.yaml:3:",
        "workflows/a.yaml:1:",
        "workflows/a.yaml:2:",
        "workflows/b.yaml:7:",
        "workflows/b.yaml:8:",
    ]
