"""The `watch` block of a source: one kind, strict fields, and errors with file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from freshline.definitions.schema.watch import EXAMPLE, KINDS, FilesWatch, watch_json, watch_of
from tests.definitions.projects import loaded, mistakes

SOURCE = "assetId: landing.orders\nmode: append\nwatch:\n  "
VALID = {
    "files": "{files: 'drop/*.csv', every: 30s, settle: 5s, marker: _SUCCESS, existing: ignore}",
    "delta": "{delta: tables/orders, every: 1m}",
    "iceberg": "{iceberg: sales.orders, catalog: {env: CATALOG}}",
    "sql": "{sql: SELECT max(updated_at) FROM orders, url: {env: SHOP_DATABASE}}",
    "http": "{http: 'https://example.com/data.json', pointer: /version, headers: {Authorization: {env: TOKEN}}}",
    "kafka": (
        "{kafka: orders, servers: 'host:9092', properties: {security.protocol: SASL_SSL},"
        " secrets: {sasl.password: {env: PASSWORD}}}"
    ),
    "python": "{python: 'jobs.landing:latest', timeout: 10m}",
}
OUTSIDE = (
    "which is not allowed; allowed is what is at or below ROOT, except names that begin with a dot; "
    "add its directory to 'allow', or move the files"
)
WRONG = {
    "{files: a, delta: b}": (3, "'watch' has 2 kinds: files, delta; keep one of them"),
    "{file: a}": (
        3,
        (
            f"'watch' does not say what to look at; allowed is one of {', '.join(KINDS)}, as in {EXAMPLE}; "
            "did you mean 'files'?"
        ),
    ),
    "drop/*.csv": (3, "'watch' is \"drop/*.csv\"; allowed are blocks of fields"),
    "{files: a, evry: 5s}": (4, "unknown field 'evry'; did you mean 'every'?"),
    "{delta: a, pointer: /x}": (
        4,
        "unknown field 'pointer'; known are everyMs, timeoutMs, delta, every, timeout",
    ),
    "{files: a, every: 10ms}": (4, "'every' is \"10ms\"; allowed are 1s or more"),
    "{files: a, everyMs: 10}": (4, "'everyMs' is 10; allowed are 1000 or more"),
    "{files: a, timeout: 1h}": (4, "'timeout' is \"1h\"; allowed are 10m or less"),
    "{files: a, existing: skip}": (4, "'existing' is \"skip\"; allowed are 'deliver' or 'ignore'"),
    "{files: a, marker: b/c}": (
        4,
        "'b/c' is not a file name; allowed is a name without '/' and patterns, as in _SUCCESS",
    ),
    "{files: /etc/*.csv}": (4, f"'files' is '/etc/*.csv' and leads to /etc, {OUTSIDE}"),
    "{files: 's3://bucket/*.csv'}": (4, f"'files' is 's3://bucket/*.csv' and leads to s3://bucket/, {OUTSIDE}"),
    "{delta: /etc/table}": (4, f"'delta' is '/etc/table' and leads to /etc/table, {OUTSIDE}"),
    "{files: ../x/*.csv}": (4, "'files' is '../x/*.csv' and contains '..'; write the path without it"),
    "{files: 'dt={partitionKey}/*.csv'}": (
        4,
        "'files' has {partitionKey}, and the source has no partitions; add 'partitioning'",
    ),
    "{sql: SELECT 1}": (3, "field 'url' is missing"),
    "{sql: DELETE FROM orders, url: {env: SHOP_DATABASE}}": (
        4,
        "'sql' is 'DELETE FROM orders'; allowed are queries, which begin with SELECT, WITH, VALUES",
    ),
    "{sql: SELECT 1, url: 'postgresql://u:canary@h/d'}": (
        4,
        "takes the name of an environment variable, as in {env: NAME}, and not its value",
    ),
    "{sql: SELECT 1, url: {env: FRESHLINE_DATABASE_URL}}": (
        4,
        "the variable FRESHLINE_DATABASE_URL belongs to Freshline itself; give the source a variable of its own",
    ),
    "{kafka: t, servers: 'h:1', properties: {sasl.kerberos.kinit.cmd: canary}}": (
        4,
        (
            "the setting 'sasl.kerberos.kinit.cmd' is not allowed; allowed are those by which a client connects and "
            "logs in: docs/sources.md lists them"
        ),
    ),
    "{kafka: t, servers: 'h:1', properties: {sasl.password: canary}}": (
        4,
        "sasl.password is secret; name its variable, as in secrets: {sasl.password: {env: NAME}}",
    ),
    "{kafka: t, servers: 'h:1', properties: {sasl.username: a}, secrets: {sasl.username: {env: A}}}": (
        4,
        "sasl.username is in 'properties' too; remove one of them",
    ),
    "{http: 'https://h/', headers: {Host: {env: A}}}": (
        4,
        "'Host' is not a header that a watch may set; allowed are names such as Authorization, X-Api-Key",
    ),
    "{http: 'ftp://canary@host/'}": (
        4,
        "'http' is not a URL; allowed are addresses that begin with https:// or http://",
    ),
    "{http: 'https://h/', pointer: version}": (
        4,
        "'version' is not a JSON pointer; allowed are texts such as /version and /items/0/id",
    ),
    "{kafka: 'a b', servers: 'h:1'}": (4, "'a b' is not a topic; allowed are 1-249 letters, digits and . _ -"),
    "{python: 'jobs:missing'}": (
        4,
        (
            "entry point 'jobs:missing': module 'jobs' does not exist; looked for jobs.py and jobs/__init__.py in the "
            "project"
        ),
    ),
    "{python: jobs}": (
        4,
        "'jobs' is not an entry point; allowed are package.module:function, as in jobs.clean:run",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_and_stored_without_loss(tmp_path: Path, kind: str) -> None:
    """A block of each kind loads, has its kind, and is the same after it was stored as JSON."""
    code = {"jobs/landing.py": "def latest(ctx): ..."}
    source = loaded(tmp_path, {"sources/a.yaml": SOURCE + VALID[kind], **code}).sources[0].definition
    assert source.watch is not None
    assert source.watch.kind == kind
    assert watch_of(watch_json(source.watch)) == source.watch


@pytest.mark.parametrize(
    "query", ["values (1)", "\n  -- the latest\n  select 1", "/* a */ (SELECT 1)", "WITH a AS (SELECT 1) SELECT 2"]
)
def test_a_query_may_begin_with_comments_and_parentheses(tmp_path: Path, query: str) -> None:
    """What a look would run is accepted."""
    assert loaded(tmp_path, {"sources/a.yaml": f"{SOURCE}{{sql: {json.dumps(query)}, url: {{env: SHOP}}}}"}).sources


def test_durations_have_defaults(tmp_path: Path) -> None:
    """A look is made every 30 seconds and has 30 seconds, unless the block says otherwise."""
    watch = loaded(tmp_path, {"sources/a.yaml": SOURCE + "{files: a}"}).sources[0].definition.watch
    assert isinstance(watch, FilesWatch)
    assert (watch.every_ms, watch.timeout_ms, watch.settle_ms, watch.existing) == (30_000, 30_000, None, "deliver")


def test_deliveries_without_a_file_need_a_source_without_a_path(tmp_path: Path) -> None:
    """Each report would be refused later; the error says what to remove and how jobs read the payload."""
    text = f"assetId: a\nmode: append\nformat: csv\npath: inbox\nwatch: {VALID['sql']}"
    (said,) = mistakes(tmp_path, {"sources/a.yaml": text})
    assert said.startswith(
        "sources/a.yaml:4: asset 'a': 'path' of a source with 'mode: append' needs deliveries that name"
    )
    assert said.endswith("remove 'format' and 'path': jobs find the payload in ctx.inputs['a'].deliveries")
    assert loaded(tmp_path, {"sources/a.yaml": text.replace("mode: append\n", "")}).sources


@pytest.mark.parametrize("block", WRONG)
def test_a_mistake_has_its_line_and_what_is_allowed(tmp_path: Path, block: str) -> None:
    """Each mistake is one sentence with the line. A value in the place of a variable is not repeated."""
    line, sentence = WRONG[block]
    assert mistakes(tmp_path, {"sources/a.yaml": SOURCE + block}) == [
        f"sources/a.yaml:{line}: asset 'landing.orders': {sentence.replace('ROOT', str(tmp_path))}"
    ]
