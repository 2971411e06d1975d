"""A project directory as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshline.definitions.loading import document
from freshline.definitions.loading.project import load_project
from freshline.definitions.schema.workflow import Query, Source, SparkSql, Workflow, source_json, workflow_json
from freshline.definitions.steps import external_inputs, produced, step_order, view_name
from freshline.definitions.template import write_template
from freshline.errors import ConflictError, DefinitionError, DefinitionErrors
from tests.definitions.projects import JOBS, loaded, minimal, mistakes, write

# The example of docs that the project began with, as they write it, completed to a workflow.
EXAMPLE = """{
  "slug": "build",
  "steps": [
    {
      "id": "build-matrix",
      "type": "job",
      "job": { "kind": "python", "entrypoint": "jobs:run" },
      "produces": [
        {
          "assetId": "build.reports",
          "freshness": { "ttlMs": 3_600_000 },
          "autoMaterialize": {
            "onUpstreamUpdate": true,
            "priority": 5
          }
        }
      ],
      "consumes": [
        { "assetId": "repo.snapshot" }
      ]
    }
  ]
}
"""


VARIABLES = 'jobEnvironment = ["HTTPS_PROXY", "SHOP_*"]'
ALLOWED = "names of variables, with * at the end for all that begin so"
FULL = """
slug: full
parameters: {a: 1}
quietHours: [{from: "22:00", to: "06:00", days: [mon]}]
backoff: {base: 1m}
secrets: [TOKEN]
steps:
  - id: one
    job: {kind: spark.sql, outputs: {o.one: "SELECT a FROM v", o.two: SELECT 1}, parameters: {p: 1}}
    consumes: [{assetId: i, as: v, autoMaterialize: {onUpstreamUpdate: true}, freshness: {maxAge: 1h}}]
    produces:
      - assetId: o.one
        freshness: {ttl: 1h, cron: 0 6 * * *, timezone: UTC}
        autoMaterialize: {when: all, debounce: 1s, maxDelay: 1m}
        checks: [{notNull: [a]}, {range: {column: a, min: 1, max: 2}}, {accepted: {column: a, values: [1]}}, {sql: a}]
        table: {partitionBy: [b]}
        dataVersion: {exclude: [t], digits: 3}
        schema: {a: 1}
      - {assetId: o.two, autoMaterialize: {}}
  - {id: two, job: {kind: python, entrypoint: "jobs:run"}, dependsOn: [one], retry: {maxAttempts: 2}, timeout: 1m}
"""


@pytest.mark.parametrize("name", ["build.json", "build.yaml", "deep/er/build.yml"])
def test_an_example_in_both_formats_works(tmp_path: Path, name: str) -> None:
    """It is a valid definition as JSON and as YAML, with the same fingerprints."""
    (one,) = loaded(tmp_path, {**JOBS, f"workflows/{name}": EXAMPLE}).workflows
    assert one.policy.outputs[0].freshness.ttl_ms == 3_600_000
    assert (one.policy.automatic, one.policy.priority, one.policy.inputs[0].triggers) == (True, 5, True)
    strict = loaded(tmp_path / "strict", {**JOBS, "workflows/b.json": EXAMPLE.replace("_", "")}).workflows[0]
    assert (one.fingerprint, one.job_fingerprint) == (strict.fingerprint, strict.job_fingerprint)
    assert Workflow.model_validate(workflow_json(one.definition)) == one.definition


def test_a_definition_is_kept_as_declared() -> None:
    """What the store keeps is what the user said, in camelCase and milliseconds, and gives the same back."""
    step = {
        "id": "x",
        "job": {"kind": "spark.sql", "outputs": {"o": "SELECT 1"}},
        "consumes": [{"assetId": "i", "as": "j"}],
        "produces": [{"assetId": "o", "schema": {"a": 1}, "freshness": {"ttl": "1h30m"}}],
        "dependsOn": [],
    }
    made = Workflow.model_validate({"slug": "w", "steps": [step], "quietHours": [{"from": "22:00", "to": "06:00"}]})
    kept = workflow_json(made)
    assert json.loads(json.dumps(kept)) == kept
    assert kept["steps"][0]["produces"][0] == {"assetId": "o", "schema": {"a": 1}, "freshness": {"ttlMs": 5_400_000}}
    assert kept["steps"][0]["consumes"] == [{"assetId": "i", "as": "j"}]
    assert "parameters" not in kept
    assert Workflow.model_validate(kept) == made
    job = made.steps[0].job
    assert isinstance(job, SparkSql)
    assert job.queries(made.steps[0]) == {"o": Query("SELECT 1")}


def test_names_and_fields_in_python_are_snake_case() -> None:
    """The models can be made in Python by field name."""
    made = Source(asset_id="s", format="csv", path="x.csv")
    assert source_json(made) == {"assetId": "s", "format": "csv", "path": "x.csv"}


def test_steps_come_after_what_they_need() -> None:
    """DependsOn and consumed assets order the steps, otherwise the declared order stays. Own output does not count."""
    job = {"kind": "python", "entrypoint": "m:f"}
    steps = [
        {"id": "d", "job": job, "consumes": [{"assetId": "c"}], "produces": [{"assetId": "d"}]},
        {"id": "c", "job": job, "consumes": [{"assetId": "c"}, {"assetId": "in"}], "produces": [{"assetId": "c"}]},
        {"id": "a", "job": job},
        {"id": "b", "job": job, "dependsOn": ["d"], "consumes": [{"assetId": "in"}, {"assetId": "also.in"}]},
    ]
    made = Workflow.model_validate({"slug": "w", "steps": steps})
    assert [step.id for step in step_order(made)] == ["c", "d", "a", "b"]
    assert [item.asset_id for item in external_inputs(made)] == ["also.in", "in"]
    assert [view_name(item) for item in external_inputs(made)] == ["also_in", "in"]
    assert {asset_id: step for asset_id, (step, _) in produced(made).items()} == {"d": "d", "c": "c"}


def test_a_cycle_of_steps_is_an_error_with_its_path() -> None:
    """Steps that wait for each other have no order."""
    steps = [
        {"id": one, "job": {"kind": "python", "entrypoint": "m:f"}, "dependsOn": [other]}
        for one, other in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"))
    ]
    with pytest.raises(DefinitionError, match="a -> c -> b -> a"):
        step_order(Workflow.model_validate({"slug": "w", "steps": steps}))


def test_sources_are_where_they_say(tmp_path: Path) -> None:
    """Paths are kept as declared, and found from the project's root; URLs are left alone (docs/semantics.md#R3.1)."""
    text = """
        - {assetId: rel, format: csv, path: data/../x.csv, options: {header: "true"}}
        - {assetId: abs, format: json, path: /data/x.json}
        - {assetId: url, format: parquet, path: s3a://bucket/x}
        - {assetId: none, schema: {fields: []}}
    """
    project = loaded(tmp_path, {"sources/all.yml": text, "sources/one.json": '{"assetId": "one"}'})
    assert [str(one.place) for one in project.sources][:2] == ["sources/all.yml:2", "sources/all.yml:3"]
    assert [project.source_location(one.definition) for one in project.sources] == [
        {"format": "csv", "path": str(project.root / "x.csv"), "options": {"header": "true"}},
        {"format": "json", "path": "/data/x.json"},
        {"format": "parquet", "path": "s3a://bucket/x"},
        None,
        None,
    ]


def test_what_reports_may_name_is_declared(tmp_path: Path) -> None:
    """Its path, or the directory before a pattern, and the prefixes of `allow` (docs/semantics.md#R3.1)."""
    text = """
        - {assetId: file, format: csv, path: data/x.csv}
        - {assetId: pattern, format: csv, path: "data/*/x.csv"}
        - {assetId: more, format: csv, path: s3a://bucket/x, allow: [in, ../shared/, /data, "s3a://bucket/y/"]}
        - {assetId: none}
        - {assetId: closed, allow: []}
    """
    project = loaded(tmp_path, {"sources/all.yml": text})
    root = project.root
    allowed = [project.allowed_paths(one.definition) for one in project.sources]
    assert [one.prefixes for one in allowed] == [
        (f"{root}/data/x.csv",),
        (f"{root}/data",),
        ("s3a://bucket/x", f"{root}/in", f"{root.parent}/shared", "/data", "s3a://bucket/y"),
        (str(root),),
        (),
    ]
    assert [one.hidden for one in allowed] == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("assetId: s\nformat: csv", "asset 's': 'format' is given without 'path'; allowed are both, or none of them"),
        ("assetId: s\npath: x", "asset 's': 'path' is given without 'format'; allowed are both, or none of them"),
        (
            "assetId: s\noptions: {a: b}",
            "asset 's': 'options' have no effect without 'format' and 'path'; add them or remove it",
        ),
        ("assetId: s\nformats: csv", "asset 's': unknown field 'formats'; did you mean 'format'?"),
        (
            "assetId: s\nallow: [data, in/*.csv]",
            "asset 's': 'in/*.csv' contains '*'; allowed are directories, files and URLs without patterns",
        ),
        (
            "assetId: s\nallow: [bucket:x]",
            "asset 's': 'bucket:x' is neither a path nor a URL such as s3a://bucket/directory",
        ),
        ("- assetId: s\n- text", 'is "text"; a source is a block of fields'),
        ("- assetId: s\n- {assetId: t, options: {a: 1}}", "asset 't': 'a' is 1; allowed are texts"),
    ],
)
def test_mistakes_in_sources_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """Sources are as strict as workflows."""
    assert mistakes(tmp_path, {"sources/s.yaml": text}) == [f"sources/s.yaml:2: {message}"]


def test_a_directory_that_is_no_project_says_how_to_make_one(tmp_path: Path) -> None:
    """A missing directory and one without freshline.toml have different errors, with the command to use."""
    for directory, what in ((tmp_path / "absent", "does not exist"), (tmp_path, "has no freshline.toml")):
        with pytest.raises(DefinitionErrors, match=f"{what}.*freshline init {directory}"):
            load_project(directory)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('nam = "x"', "1: unknown field 'nam'; did you mean 'name'?"),
        (
            'name = "x"\n[limits]\nbig = 1',
            "2: unknown field 'limits'; known are name, pools, jobEnvironment and alerts",
        ),
        ('jobEnvironment = "A"', f"1: 'jobEnvironment' is 'A'; write a list of variables, as in {VARIABLES}"),
        ('jobEnvironment = ["A-B"]', f"1: 'jobEnvironment' has 'A-B'; allowed are {ALLOWED}, as in {VARIABLES}"),
        ("jobEnvironment = [1]", f"1: 'jobEnvironment' has 1; allowed are {ALLOWED}, as in {VARIABLES}"),
        (
            'jobEnvironment = ["FRESHLINE_X"]',
            "1: 'jobEnvironment' has 'FRESHLINE_X'; Freshline's own settings never reach jobs: remove it",
        ),
        ("pools = 3", "1: 'pools' is 3; write a table with a limit per pool, as in [pools] warehouse = 2"),
        ("[pools]\nbig = 0", "2: pool 'big' has the limit 0; allowed are whole numbers from 1 to 10000"),
        ("[pools]\nbig = true", "2: pool 'big' has the limit True; allowed are whole numbers from 1 to 10000"),
        (
            '[pools]\n"a b" = 1',
            "2: 'a b' is not a pool's name; allowed are 1-100 letters, digits and . _ -, a letter or digit first",
        ),
        ("\nname = 5", "2: 'name' is 5; allowed are 1-100 letters, digits and . _ -, a letter or digit first"),
        ("a = 1\n= 2", "2: cannot be read as TOML: Invalid statement (at line 2, column 1)"),
    ],
)
def test_mistakes_in_freshline_toml_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """The project's own file is checked like the rest."""
    assert mistakes(tmp_path, {"freshline.toml": text}) == [f"freshline.toml:{message}"]


def test_the_name_of_a_project(tmp_path: Path) -> None:
    """freshline.toml names it, else the directory does, in characters that a name may have.

    See docs/semantics.md#R10.1.
    """
    assert loaded(tmp_path / "My Project!", {}).name == "My-Project"
    assert loaded(tmp_path / "x", {"freshline.toml": 'name = "orders"'}).name == "orders"


def test_files_that_are_no_definitions_are_left_alone(tmp_path: Path) -> None:
    """Hidden files, caches and other suffixes do not count."""
    files = {"workflows/.hidden.yaml": "x", "workflows/.git/a.yaml": "x", "workflows/README.md": "x"}
    project = loaded(tmp_path, {**files, "workflows/empty.yaml": "# nothing\n"})
    assert (project.workflows, project.sources, project.warnings) == ((), (), ())


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """The error names the position of bytes that are not UTF-8."""
    write(tmp_path, {"workflows/a.yaml": ""})
    (tmp_path / "workflows" / "a.yaml").write_bytes(b"slug: \xff\n")
    assert mistakes(tmp_path, {}) == ["workflows/a.yaml: is not UTF-8 text: byte 6 is wrong"]


NAMES = st.sampled_from(["assetId", "kind", "sql", "ttl", "id", "<<", "column", "x"])
PIECES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**13)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "a.b", "1h", "spark.sql", "SELECT a FROM (", "0 0 * * *", "any", "jobs:run", "x\ny"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(NAMES, children, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_mistake_is_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever stands in place of any part of a definition, the loader answers with its own errors, or loads it."""
    whole = document.parse(FULL, "x.yaml")[0].data
    block, key = whole, "steps"
    for _ in range(data.draw(st.integers(0, 7))):
        if not isinstance(block[key], dict | list) or not block[key]:
            break
        block, keys = block[key], block[key]
        key = data.draw(st.sampled_from(sorted(keys) if isinstance(keys, dict) else range(len(keys))))
    block[key] = data.draw(PIECES)
    write(tmp_path, {**JOBS, "workflows/w.json": json.dumps(whole), "sources/s.json": json.dumps([data.draw(PIECES)])})
    try:
        load_project(tmp_path)
    except DefinitionErrors as error:
        assert all(one.place is not None and one.message for one in error.errors)  # noqa: PT017 - both ends are fine


def test_a_thousand_workflows_load(tmp_path: Path) -> None:
    """A long chain of workflows is read, ordered and checked without recursion."""
    texts = [minimal(f"w{i}", consumes=f"w{i - 1}" if i else "") for i in range(1_000)]
    project = loaded(tmp_path, {**JOBS, "workflows/all.yaml": "---\n".join(texts)}, strict=True)
    assert len(project.workflows) == 1_000
    assert str(project.workflows[1].place) == "workflows/all.yaml:8"


def test_init_writes_a_project_that_is_valid(tmp_path: Path) -> None:
    """The template loads strictly, without warnings, and its own test passes."""
    written = write_template(tmp_path / "new")
    project = load_project(tmp_path / "new", strict=True)
    assert [one.definition.slug for one in project.workflows] == ["orders-best", "orders-daily"]
    assert project.warnings == ()
    assert tmp_path / "new" / ".gitignore" in written
    location = project.source_location(project.sources[0].definition)
    assert location is not None
    assert (tmp_path / "new" / "data" / "orders.csv").samefile(location["path"])
    names: dict[str, object] = {"__file__": str(tmp_path / "new" / "tests" / "test_policy.py")}
    exec((tmp_path / "new" / "tests" / "test_policy.py").read_text(), names)  # noqa: S102 - the file under test
    tests = [test for name, test in names.items() if name.startswith("test_") and callable(test)]
    assert [test() for test in tests] == [None, None]


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """One file in the way, and nothing is written."""
    (tmp_path / "freshline.toml").touch()
    with pytest.raises(ConflictError, match=r"freshline\.toml exists"):
        write_template(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["freshline.toml"]
