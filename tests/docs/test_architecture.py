"""docs/architecture.md matches the code."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import ARCHITECTURE, ROOT, code, codes

SOURCES = sorted((ROOT / "src" / "freshline").rglob("*.py"))


def test_the_layers_are_those_that_the_linter_enforces() -> None:
    """The list of parts and import-linter's contract name the same layers in the same order."""
    (parts,) = ARCHITECTURE.blocks("text")
    shown = [line.split()[0] for line in parts.splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert shown == [layer.removeprefix("freshline.") for layer in reversed(layers)]


def test_every_layer_exists_and_every_module_has_its_place() -> None:
    """No part of the package is left out: it is a layer, or one of the modules beside them."""
    (parts,) = ARCHITECTURE.blocks("text")
    package = ROOT / "src" / "freshline"
    found = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__", "failpoints", "counters", "lazy_logger"} == {
        line.split()[0] for line in parts.splitlines()
    }


def test_the_pure_layers_are_those_that_the_linter_keeps_pure() -> None:
    """The sentence about purity names the source modules of the contract that keeps the core pure."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (pure,) = [contract["source_modules"] for contract in contracts if contract["name"].startswith("The core is pure")]
    *first, last = [f"`{module.removeprefix('freshline.')}`" for module in pure]
    assert f"{', '.join(first)} and {last} are pure" in ARCHITECTURE.prose


def test_the_table_of_transactions_is_complete() -> None:
    """Every named transaction in the code has one row, and every row a transaction."""
    named = [name for path in SOURCES for name in re.findall(r'\.transaction\(\s*"(\w+)"', path.read_text("utf-8"))]
    assert sorted(code(row[0]) for row in ARCHITECTURE.table("Transactions")) == sorted(set(named))


def test_the_components_of_the_store_have_their_transactions() -> None:
    """Each attribute of `Store` has a row that links its module and names exactly the transactions of that module."""
    text = (ROOT / "src" / "freshline" / "store" / "store.py").read_text(encoding="utf-8")
    attributes = re.findall(r"^        self\.(\w+) = [A-Z]\w+\(", text, re.MULTILINE)
    rows = ARCHITECTURE.table("The store")
    assert [codes(row[0])[0] for row in rows] == attributes
    for cell, named in rows:
        module = ROOT / "docs" / re.findall(r"\]\((.+)\)", cell)[0]
        assert set(codes(named)) == set(re.findall(r'\.transaction\(\s*"(\w+)"', module.read_text(encoding="utf-8")))


def test_every_transaction_says_what_a_lost_answer_means() -> None:
    """The table of lost commits names every transaction, once."""
    told = [name for row in ARCHITECTURE.table("When the answer to COMMIT is lost") for name in codes(row[0])]
    assert sorted(told) == sorted(code(row[0]) for row in ARCHITECTURE.table("Transactions"))


def test_the_table_of_tables_is_complete() -> None:
    """Every table of the schema has its place, and no other."""
    dump = (ROOT / "src" / "freshline" / "store" / "schema.sql").read_text(encoding="utf-8")
    made = set(re.findall(r"CREATE TABLE (?:public\.)?(\w+)", dump))
    shown = [name for row in ARCHITECTURE.table("Tables") for name in codes(row[0])]
    assert sorted(shown) == sorted(made - {"events_default"})  # a partition of events


def test_services_are_all_named() -> None:
    """Each service of the materializer is linked where the way of an update is told."""
    services = {path.stem for path in (ROOT / "src" / "freshline" / "services").glob("*.py")}
    links = set(re.findall(r"src/freshline/services/(\w+)\.py", ARCHITECTURE.text))
    assert services - {"__init__", "service", "materializer"} == links


def test_the_walk_of_an_update_opens_few_files() -> None:
    """From a report to a published table: at most 40 files, all of which exist."""
    links = re.findall(r"\((\.\./src/[^)]+)\)", ARCHITECTURE.section("The same flow, file by file"))
    files = {link.removeprefix("../") for link in links}
    assert len(files) <= 40
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []
