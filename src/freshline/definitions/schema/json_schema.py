"""The JSON Schemas of definitions, for editors: `python -m freshline.definitions.schema.json_schema [DIRECTORY]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from freshline.definitions.schema.base import Model
from freshline.definitions.schema.workflow import Source, Workflow
from freshline.model.json import Json

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def workflow_schema() -> Json:
    """Return the schema of a workflow document."""
    return _schema(Workflow, "A Freshline workflow")


def source_schema() -> Json:
    """Return the schema of a source document: one source, or a list of sources."""
    schema = _schema(Source, "Freshline sources")
    definitions = schema.pop("$defs", {})
    one = {key: schema.pop(key) for key in list(schema) if key not in {"$schema", "title"}}
    either = [{"$ref": "#/$defs/Source"}, {"type": "array", "items": {"$ref": "#/$defs/Source"}}]
    return {**schema, "anyOf": either, "$defs": {**definitions, "Source": one}}


def write(directory: Path) -> list[Path]:
    """Write both schemas into a directory."""
    written = []
    for name, schema in (("definition", workflow_schema()), ("source", source_schema())):
        path = directory / f"{name}.schema.json"
        path.write_text(text_of(schema), encoding="utf-8")
        written.append(path)
    return written


def text_of(schema: Json) -> str:
    """Return the text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _schema(model: type[Model], title: str) -> Json:
    body = _tidy(model.model_json_schema(by_alias=True, mode="validation"))
    return {"$schema": DIALECT, **body, "title": title}


def _tidy(schema: Any) -> Any:
    """Remove titles that only repeat field names, and accept `ttl` where `ttlMs` is required."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: _tidy(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    words = [
        name
        for name in tidy.get("required", ())
        if name.removesuffix("Ms") in tidy.get("properties", {}) and name.endswith("Ms")
    ]
    if words:
        tidy["required"] = [name for name in tidy["required"] if name not in words]
        tidy["allOf"] = [{"anyOf": [{"required": [name]}, {"required": [name.removesuffix("Ms")]}]} for name in words]
    return tidy


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
