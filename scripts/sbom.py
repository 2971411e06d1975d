"""Writes the software bill of materials: the locked packages of the runtime and those in the page, in CycloneDX JSON.

`python -m scripts.sbom [FILE]`, by default `dist/freshline-VERSION.cdx.json`. It reads lock files only, so it needs no
network, and equal locks give equal files.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from freshline import __version__
from scripts import build_page

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "runtime.lock"
PAGE_LOCK = ROOT / "page" / "package-lock.json"
SPEC = "1.6"
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
Json = dict[str, Any]


def bill(lock: str, page_lock: str) -> Json:
    """Return the document for the texts of the two lock files."""
    components = [*_components(lock), *_page_components(page_lock)]
    own = {
        "type": "application",
        "name": "freshline",
        "version": __version__,
        "bom-ref": _reference("freshline", __version__),
    }
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'freshline {__version__} {lock} {page_lock}')}",
        "version": 1,
        "metadata": {"component": {**own, "purl": own["bom-ref"], "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [one["bom-ref"] for one in components]}],
    }


def _components(lock: str) -> Iterator[Json]:
    """Yield a component for each package. `hashes`: those of all its files, of which one is installed."""
    for entry in re.split(r"\n(?=\S)", lock.strip()):
        found = _PACKAGE.match(entry)
        if found is None:
            raise ValueError(f"{entry.splitlines()[0]!r} in the lock is not NAME==VERSION; `make lock` writes it")
        reference = _reference(found["name"], found["version"])
        marker = [{"name": "python:marker", "value": found["marker"].strip()}] if found["marker"] else []
        yield {
            "type": "library",
            "bom-ref": reference,
            "name": found["name"],
            "version": found["version"],
            "purl": reference,
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in _HASH.findall(entry)],
            **({"properties": marker} if marker else {}),
        }


def _page_components(lock: str) -> Iterator[Json]:
    """Yield a component for each npm package that the built page contains."""
    for name, entry in build_page.bundled(lock).items():
        reference = f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}"
        algorithm, _, digest = entry["integrity"].partition("-")
        yield {
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": entry["version"],
            "purl": reference,
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
            "licenses": [{"license": {"id": entry["license"]}}],
        }


def _reference(name: str, version: str) -> str:
    """Return the package URL. Names on the index ignore case, and `-`, `_` and `.` are the same."""
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"


def main() -> None:
    """Write the file and say where it is."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / f"freshline-{__version__}.cdx.json"
    document = bill(LOCK.read_text(encoding="utf-8"), PAGE_LOCK.read_text(encoding="utf-8"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {target}: {len(document['components'])} packages")


if __name__ == "__main__":
    main()
