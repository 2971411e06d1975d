"""The field reference and the JSON Schemas say what the loader does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from freshline.definitions.loading import document
from freshline.definitions.schema.base import Model, known_fields
from freshline.definitions.schema.input_partitions import InputPartitions, Window
from freshline.definitions.schema.json_schema import source_schema, text_of, workflow_schema
from freshline.definitions.schema.partitioning import Dynamic, Partitioning
from freshline.definitions.schema.timing import LatestPartitions, PartitionLimit
from freshline.definitions.schema.workflow import (
    AutoMaterialize,
    Backoff,
    Check,
    Consumes,
    DataVersion,
    Freshness,
    Produces,
    QuietHours,
    Retry,
    Source,
    Step,
    Table,
    Workflow,
    workflow_json,
)
from tests.definitions.projects import loaded
from tests.definitions.test_projects import EXAMPLE

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "definitions.md").read_text(encoding="utf-8")
PARTITIONS = re.findall(r"~~~(?:yaml|python)\n(.*?)~~~", TEXT, re.DOTALL)
FENCES = re.findall(r"```(yaml|python)\n(.*?)```", TEXT, re.DOTALL)


def test_the_examples_of_the_reference_are_a_valid_project(tmp_path: Path) -> None:
    """All examples together load strictly and without a warning."""
    (workflow, *sources), (python,) = (
        [text for language, text in FENCES if language == wanted] for wanted in ("yaml", "python")
    )
    files = {f"sources/{number}.yaml": text for number, text in enumerate(sources)}
    files |= {"workflows/delay.yaml": workflow, "workflows/daily.py": python}
    project = loaded(tmp_path, files, strict=True)
    assert [one.definition.slug for one in project.workflows] == [
        "flights-delay",
        "flights-delay-daily",
        "planes-count",
    ]
    assert project.warnings == ()


def test_the_examples_of_partitions_are_a_valid_project(tmp_path: Path) -> None:
    """They load strictly and without a warning."""
    source, workflow, python = PARTITIONS
    files = {"sources/orders.yaml": source, "workflows/sales.yaml": workflow, "workflows/sales.py": python}
    project = loaded(tmp_path, files, strict=True)
    assert (len(project.workflows), project.warnings) == (4, ())


@pytest.mark.parametrize(
    "block",
    [
        Workflow,
        Step,
        Consumes,
        Produces,
        Freshness,
        AutoMaterialize,
        Check,
        Table,
        DataVersion,
        Retry,
        Backoff,
        QuietHours,
        Source,
        Partitioning,
        Dynamic,
        InputPartitions,
        Window,
        PartitionLimit,
        LatestPartitions,
    ],
)
def test_the_reference_names_every_field(block: type[Model]) -> None:
    """A field that is not in the reference does not exist for users."""
    fields = [field.alias or name for name, field in block.model_fields.items()]
    assert [name for name in fields if not re.search(rf"\b{name}\b", TEXT)] == []


def test_every_field_of_every_block_is_described() -> None:
    """Editors show these descriptions; also the durations in words are known to them."""
    schema = workflow_schema()
    for name, block in schema["$defs"].items():
        model = next((one for one in Model.__subclasses__() if one.__name__ == name), None)
        if model is not None:
            assert set(block["properties"]) == set(known_fields(model)), name
            assert block["additionalProperties"] is False


@pytest.mark.parametrize(("name", "schema"), [("definition", workflow_schema()), ("source", source_schema())])
def test_the_schemas_in_docs_are_current(name: str, schema: dict[str, Any]) -> None:
    """`python -m freshline.definitions.schema.json_schema` was run after the last change of a model."""
    assert (DOCS / f"{name}.schema.json").read_text(encoding="utf-8") == text_of(schema)


def accepts(schema: dict[str, Any], data: Any, root: dict[str, Any]) -> bool:
    """Whether a JSON Schema accepts data: the keywords that ours use, and an error for any other."""
    if "$ref" in schema:
        return accepts(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], data, root)
    return all(_keyword(key, value, schema, data, root) for key, value in schema.items())


TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
NOTES = {"$schema", "$defs", "title", "description", "default", "discriminator"}


def _keyword(key: str, value: Any, schema: dict[str, Any], data: Any, root: dict[str, Any]) -> bool:  # noqa: C901, PLR0912
    if key in NOTES:
        return True
    if key == "type":
        return isinstance(data, TYPES[value]) and (not isinstance(data, bool) or value == "boolean")
    if key in {"enum", "const"}:
        return data in (value if key == "enum" else [value])
    if key in {"anyOf", "oneOf"}:
        fitting = sum(accepts(one, data, root) for one in value)
        return fitting == 1 if key == "oneOf" else fitting > 0
    if key == "allOf":
        return all(accepts(one, data, root) for one in value)
    if key == "not":
        return not accepts(value, data, root)
    if key in {"minimum", "maximum"}:
        return not isinstance(data, int | float) or (data >= value if key == "minimum" else data <= value)
    if key in {"minLength", "minItems"}:
        return bool(len(data) >= value)
    if key in {"maxLength", "maxItems"}:
        return bool(len(data) <= value)
    if key == "pattern":
        return not isinstance(data, str) or re.search(value, data) is not None
    if not isinstance(data, dict) and key in {"properties", "required", "additionalProperties"}:
        return True
    if key == "required":
        return all(name in data for name in value)
    if key == "properties":
        return all(accepts(value[name], item, root) for name, item in data.items() if name in value)
    if key == "additionalProperties":
        rest = [item for name, item in data.items() if name not in schema.get("properties", {})]
        return value is True or (not rest if value is False else all(accepts(value, item, root) for item in rest))
    if key == "items":
        return not isinstance(data, list) or all(accepts(value, item, root) for item in data)
    raise AssertionError(f"the schema uses {key!r}, which this test does not know")


def test_the_schemas_accept_the_examples() -> None:
    """Editors must not complain about what the loader takes."""
    workflow, source, *_ = (text for language, text in FENCES if language == "yaml")
    for text in (workflow, EXAMPLE):
        data = document.parse(text, "x.yaml")[0].data
        assert accepts(workflow_schema(), data, workflow_schema())
        assert accepts(workflow_schema(), workflow_json(Workflow.model_validate(data)), workflow_schema())
    listed = document.parse(source, "x.yaml")[0].data
    assert accepts(source_schema(), listed, source_schema())
    assert accepts(source_schema(), listed[0], source_schema())


def test_the_schemas_accept_partitions() -> None:
    """The same for the examples of partitions, and as they are stored."""
    source, workflow, _ = PARTITIONS
    assert accepts(source_schema(), document.parse(source, "x.yaml")[0].data, source_schema())
    data = document.parse(workflow, "x.yaml")[0].data
    assert accepts(workflow_schema(), data, workflow_schema())
    block = data["steps"][0]["produces"][0]["partitioning"]
    data["steps"][0]["produces"][0]["partitioning"] = {"dimensions": {"day": block, "region": {"keys": ["eu"]}}}
    del block["column"]
    assert accepts(workflow_schema(), data, workflow_schema())
    assert accepts(workflow_schema(), workflow_json(Workflow.model_validate(data)), workflow_schema())
    block["keys"] = ["eu"]
    assert not accepts(workflow_schema(), data, workflow_schema())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ttlMs": 3_600_000', '"ttlMs": "5"'),
        ('"ttlMs": 3_600_000', '"ttl": "5"'),
        ('"ttlMs"', '"ttlms"'),
        ('"slug": "build"', '"slug": 5'),
        ('"kind": "python"', '"kind": "spark.sql"'),
        ('"kind": "python", "entrypoint": "jobs:run"', '"kind": "spark.sql", "sql": "SELECT 1", "sqlFile": "a.sql"'),
        ('"priority": 5', '"priority": -5'),
        ('"type": "job"', '"type": "service"'),
    ],
)
def test_the_schemas_refuse_mistakes(old: str, new: str) -> None:
    """Editors show the most common mistakes while they are made."""
    assert old in EXAMPLE
    data = document.parse(EXAMPLE.replace(old, new), "x.yaml")[0].data
    assert not accepts(workflow_schema(), data, workflow_schema())


def test_a_required_duration_may_be_in_words() -> None:
    """`maxAge` is enough where `maxAgeMs` is required."""
    schema = workflow_schema()
    block = schema["$defs"]["InputFreshness"]
    assert accepts(block, {"maxAge": "1h"}, schema)
    assert accepts(block, {"maxAgeMs": 5}, schema)
    assert not accepts(block, {}, schema)
    assert json.loads(text_of(schema)) == schema
