"""Writes the software bill of materials: the locked packages of the runtime, in CycloneDX JSON.

`python -m scripts.sbom [FILE]`, by default `dist/freshline-VERSION.cdx.json`. It reads the lock file only, so it needs
no network, and equal locks give equal files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from freshline import __version__

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "runtime.lock"
SPEC = "1.6"
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
Json = dict[str, Any]


def bill(lock: str) -> Json:
    """Return the document for the text of a lock file."""
    components = list(_components(lock))
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
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'freshline {__version__} {lock}')}",
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


def _reference(name: str, version: str) -> str:
    """Return the package URL. Names on the index ignore case, and `-`, `_` and `.` are the same."""
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"


def main() -> None:
    """Write the file and say where it is."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / f"freshline-{__version__}.cdx.json"
    document = bill(LOCK.read_text(encoding="utf-8"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {target}: {len(document['components'])} packages")


if __name__ == "__main__":
    main()
