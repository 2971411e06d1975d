"""What is installed: tested bounds, a pinned installer, a bill of materials, an audit that says what it did not do."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from scripts import audit, build_page, sbom

PROJECT = tomllib.loads((sbom.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE_LOCK = sbom.PAGE_LOCK.read_text(encoding="utf-8")
DATA = {"pytz", "tzdata"}  # the newest is the best
DECLARED = [
    Requirement(text)
    for text in (
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    )
]


def locked(lock: str) -> dict[str, str]:
    """Return the versions of a lock; of a package with several, the newest."""
    found = re.findall(
        r"^([\w.-]+)==([\w.]+)", (sbom.ROOT / "requirements" / lock).read_text(encoding="utf-8"), re.MULTILINE
    )
    return dict(sorted(found, key=lambda one: Version(one[1])))


@pytest.mark.parametrize("one", DECLARED, ids=str)
def test_a_dependency_is_bounded_by_the_next_major_version(one: Requirement) -> None:
    """The locked version, which the tests run with, is inside; nothing that nobody tested is."""
    tested = Version(locked("dev.lock")[one.name.replace(".", "-").lower()])
    assert tested in one.specifier
    if one.name not in DATA:
        assert Version(f"{tested.major + 1}") not in one.specifier
        assert Version(f"{tested.major}.99999") in one.specifier


def test_the_bill_of_materials_has_every_locked_package() -> None:
    """With its version, its hashes and its package URL; equal locks give equal documents."""
    text = sbom.LOCK.read_text(encoding="utf-8")
    document = sbom.bill(text, PAGE_LOCK)
    ours = [one for one in document["components"] if one["purl"].startswith("pkg:pypi/")]
    assert {one["name"]: one["version"] for one in ours} == locked("runtime.lock")
    assert sum(len(one["hashes"]) for one in ours) == text.count("--hash=sha256:")
    (yaml,) = [one for one in document["components"] if one["name"] == "ruamel-yaml"]
    assert yaml["purl"] == f"pkg:pypi/ruamel-yaml@{yaml['version']}"
    assert sbom.bill(text, PAGE_LOCK) == document
    with pytest.raises(ValueError, match="is not NAME==VERSION"):
        sbom.bill("click>=8\n", PAGE_LOCK)


def test_the_bill_of_materials_has_the_packages_of_the_page() -> None:
    """Those that the bundle contains, with version, hash and license; not those that only build and test it."""
    manifest = json.loads((sbom.ROOT / "page" / "package.json").read_text(encoding="utf-8"))
    components = sbom.bill(sbom.LOCK.read_text(encoding="utf-8"), PAGE_LOCK)["components"]
    inside = {one["name"]: one for one in components if one["purl"].startswith("pkg:npm/")}
    assert manifest["dependencies"].items() <= {name: one["version"] for name, one in inside.items()}.items()
    assert not manifest["devDependencies"].keys() & inside.keys()
    signals = inside["@preact/signals"]
    assert signals["purl"] == f"pkg:npm/%40preact/signals@{signals['version']}"
    assert all(one["hashes"][0]["alg"] == "SHA-512" for one in inside.values())
    assert {one["licenses"][0]["license"]["id"] for one in inside.values()} <= build_page.ALLOWED_LICENSES


def test_the_lock_of_the_page_fixes_every_package_by_hash_and_names_no_host() -> None:
    """Where a package comes from is the user's configuration of npm."""
    for place, entry in json.loads(PAGE_LOCK)["packages"].items():
        assert not place or entry["integrity"].startswith("sha512-"), place
        assert "resolved" not in entry, place


def test_the_bill_of_materials_fits_the_schema_of_cyclonedx() -> None:
    """The schema is in a package of the audit; formats such as URLs are not checked."""
    spec = importlib.util.find_spec("cyclonedx")
    assert spec is not None, "cyclonedx-python-lib is not installed: `make setup` installs it"
    assert spec.origin is not None
    validator = importlib.import_module("jsonschema_rs").validator_for
    schemas = Path(spec.origin).parent / "schema" / "_res"

    def retrieve(uri: str) -> Any:
        name = uri.rpartition("/")[2].removesuffix(".schema.json").removesuffix(".SNAPSHOT")
        return json.loads((schemas / f"{name}.SNAPSHOT.schema.json").read_text(encoding="utf-8"))

    check = validator(retrieve(f"bom-{sbom.SPEC}.schema.json"), retriever=retrieve)
    document = sbom.bill(sbom.LOCK.read_text(encoding="utf-8"), PAGE_LOCK)
    assert [error.message for error in check.iter_errors(document)] == []
    assert not check.is_valid({**document, "specVersion": 1})


def test_the_audit_says_what_it_did_not_look_at() -> None:
    """pip-audit ends with 0 and "No known vulnerabilities found" where it could not reach the advisories."""
    sound, flawed = (
        {"name": "a", "version": "1", "vulns": []},
        {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]},
    )
    skipped = {"name": "c", "skip_reason": "Dependency not found on PyPI"}

    def summary(*packages: dict[str, Any]) -> audit.Audit:
        return audit.summarize("x.lock", json.dumps({"dependencies": packages}), "")

    assert summary(sound) == ("audit: x.lock: 1 packages, 0 known vulnerabilities", 0)
    assert summary(sound, flawed) == ("audit: x.lock: 2 packages, 1 known vulnerabilities\nb 2: PYSEC-1", 1)
    assert summary(skipped) == ("audit: x.lock was skipped: the advisory data cannot be reached from here", 0)
    assert summary(sound, skipped).text.endswith("; 1 could not be audited")
    failed = audit.summarize("x.lock", "", "Traceback\nConnectionError: no route\n")
    assert failed == ("audit: x.lock was skipped: ConnectionError: no route", 0)


def test_the_installer_is_pinned() -> None:
    """By version and hash, in one place; the set-up takes no other."""
    (version,) = locked("installer.lock").values()
    script = sbom.ROOT / "scripts" / "setup.sh"
    said = subprocess.run(["sh", str(script), "uv-version"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == version
    assert re.findall(r"pip install.* uv\b", script.read_text(encoding="utf-8")) == []
