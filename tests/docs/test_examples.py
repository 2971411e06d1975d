"""The definitions and commands on the pages are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest

from freshline.cli.main import COMMANDS, cli
from freshline.definitions.loading.project import load_project
from tests.docs.pages import ASSETS, PAGES, README, ROOT, Page, codes

SOURCES = re.compile(r"^assetId:", re.MULTILINE)
SHELL = [(page.name, arguments) for page in PAGES for arguments in page.commands()]


def write(root: Path, page: Page) -> Path:
    """Write a project of all the definitions on a page."""
    (root / "workflows").mkdir()
    (root / "sources").mkdir()
    (root / "freshline.toml").touch()
    for number, text in enumerate(page.blocks("yaml")):
        directory = "sources" if SOURCES.match(text) else "workflows"
        (root / directory / f"example{number}.yaml").write_text(text, encoding="utf-8")
    for number, text in enumerate(page.blocks("python")):
        (root / "workflows" / f"example{number}.py").write_text(text, encoding="utf-8")
    return root


def test_the_definitions_of_the_readme_are_a_project(tmp_path: Path) -> None:
    """Every YAML and Python block loads; only the input of the Spark example comes from elsewhere."""
    project = load_project(write(tmp_path, README))
    assert [one.definition.slug for one in project.workflows] == ["orders-daily", "shop-alert", "shop-total"]
    assert [one.definition.asset_id for one in project.sources] == ["shop.orders"]
    assert [str(warning) for warning in project.warnings if "'orders.clean'" not in str(warning)] == []


def test_the_python_example_of_the_overview_says_the_same_as_the_yaml(tmp_path: Path) -> None:
    """Both ways to opt in give one policy."""
    text, python = ASSETS.blocks("yaml")[0], ASSETS.blocks("python")[0]
    policies = []
    for name, content in (("reports.yaml", text), ("reports.py", python)):
        root = tmp_path / name
        (root / "workflows").mkdir(parents=True)
        (root / "sources").mkdir()
        (root / "freshline.toml").touch()
        (root / "sources" / "repo.yaml").write_text("assetId: repo.snapshot\n")
        (root / "workflows" / name).write_text(content, encoding="utf-8")
        (workflow,) = load_project(root, strict=True).workflows
        policies.append(workflow.policy)
    assert policies[0] == policies[1]
    assert policies[0].outputs[0].freshness.ttl_ms == 3_600_000


@pytest.mark.parametrize("text", ASSETS.blocks("yaml"))
def test_each_workflow_of_the_overview_loads(text: str, tmp_path: Path) -> None:
    """Nothing but undeclared inputs is warned about."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "freshline.toml").touch()
    (tmp_path / "workflows" / "example.yaml").write_text(text, encoding="utf-8")
    for query in ASSETS.blocks("sql"):
        (tmp_path / "workflows" / query.splitlines()[0].removeprefix("-- ")).write_text(query, encoding="utf-8")
    project = load_project(tmp_path)
    assert len(project.workflows) == 1
    assert [str(one) for one in project.warnings if "neither produced nor a declared source" not in str(one)] == []


def test_every_json_block_is_json() -> None:
    """Readers copy them."""
    for page in PAGES:
        for text in page.blocks("json"):
            json.loads(text)


@pytest.mark.parametrize(("page", "arguments"), SHELL, ids=[" ".join(arguments) for _, arguments in SHELL])
def test_every_command_can_be_typed(page: str, arguments: list[str]) -> None:
    """The command exists and takes these options and arguments."""
    command: click.Command = cli
    context = click.Context(cli, info_name="freshline")
    rest = list(arguments)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest[0])
        assert found is not None, f"{page}: command {rest[0]!r} does not exist"
        command = found
        context = click.Context(command, info_name=rest.pop(0), parent=context)
    command.make_context(context.info_name, rest, parent=context.parent)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_a_sentence_exists(page: Page) -> None:
    """`freshline something` between backquotes is a command."""
    named = {text.split()[1] for text in codes(page.prose) if text.startswith("freshline ")}
    assert named - set(COMMANDS) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Page) -> None:
    """Every `make something` is a target."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"`make ([a-z]+)`", page.prose) + [
        command.split()[1] for command in page.shell() if command.startswith("make ")
    ]
    assert set(named) <= targets


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "img").glob("*.svg")), ids=lambda path: path.name)
def test_pictures_are_whole_and_ask_nobody(picture: Path) -> None:
    """They are well-formed, have a title and a description, suit light and dark, and load nothing from elsewhere."""
    text = picture.read_text(encoding="utf-8")
    root = ET.fromstring(text)  # noqa: S314 - our own file
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None
    assert root.find(f"{space}desc") is not None
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"(?:href|src)=|@import|url\((?!#)|<script|https?://(?!www\.w3\.org/2000/svg)", text) == []
