"""Projects for tests: files from a mapping, and what the loader says about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from freshline.definitions.loading.project import Project, load_project
from freshline.errors import DefinitionErrors


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Write the files of a project, with an empty `freshline.toml` unless there is one."""
    for name, text in {"freshline.toml": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return root


def loaded(root: Path, files: Mapping[str, str], *, strict: bool = False) -> Project:
    """Load the project of the files."""
    return load_project(write(root, files), strict=strict)


def mistakes(root: Path, files: Mapping[str, str], *, strict: bool = False) -> list[str]:
    """Return the errors of the loader."""
    with pytest.raises(DefinitionErrors) as caught:
        loaded(root, files, strict=strict)
    return [str(error) for error in caught.value.errors]


def minimal(slug: str = "clean", *, consumes: str = "", produces: str = "") -> str:
    """Return a small workflow `slug` that produces the asset of the same name."""
    inputs = ", ".join(f"{{assetId: {asset}}}" for asset in consumes.split())
    return (
        f"slug: {slug}\n"
        "steps:\n"
        "  - id: only\n"
        "    job: {kind: python, entrypoint: jobs:run}\n"
        f"    consumes: [{inputs}]\n"
        f"    produces: [{{assetId: {produces or slug}}}]\n"
    )


JOBS = {"jobs.py": "def run(ctx):\n    return {}\n"}


def always(fingerprint: str) -> Callable[[str], str]:
    """Return a function that returns this fingerprint for the code of every entry point."""
    return lambda _: fingerprint
