"""The project of the chaos test, in all states that redefinitions bring it to: joins, chains, files and a flaky job.

A job's output is a function of its code, its parameters and its inputs. So the final version of every asset can be
computed, and each published version shows what it was made from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

SOURCES = ("orders", "prices", "stock")
CONSUMES: dict[str, tuple[str, ...]] = {  # every asset after those that it may read
    "clean": ("orders",),
    "priced": ("clean", "prices"),
    "daily": ("priced",),
    "weekly": ("daily", "clean"),
    "shelf": ("stock", "orders"),
    "flaky": ("prices",),
    "report": ("weekly", "shelf", "flaky"),
    "narrow": ("stock",),
    "wide": ("stock",),
    "ticker": ("orders",),
}
TICKER = "ticker"  # runs again and again because it expires
POOLED = {"narrow", "wide"}
WRITERS = {"priced", "shelf"}  # write their data into files
BASE_MS, MAX_MS = 1_000, 4_000  # of cooldowns
LEASE_MS = 3_000
CALM = "calm"  # while this file is absent, the flaky job fails now and then
FILES = "files"
JOBS = """
import hashlib, os, pathlib, time

CODE = {code}

def content(name, salt, read):
    return repr((CODE, name, salt, read))

def work(ctx):
    name, salt = ctx.parameters["asset"], ctx.parameters["salt"]
    luck = int(hashlib.sha256(f"{{ctx.run_id}}".encode()).hexdigest(), 16)
    time.sleep(luck % 300 / 1000)
    if name == "flaky" and luck % 3 == 0 and not pathlib.Path("calm").exists():
        raise ValueError("out of luck")
    for one in ctx.inputs.values():
        if one.payload and "file" in one.payload:
            found = hashlib.sha256(pathlib.Path(one.payload["file"]).read_bytes().rstrip()).hexdigest()[:12]
            if found != one.data_version:
                raise ValueError(f"the file of {{one.asset_id}} has the version {{found}}, not {{one.data_version}}")
    text = content(name, salt, sorted((asset, one.data_version) for asset, one in ctx.inputs.items()))
    version = hashlib.sha256(text.encode()).hexdigest()[:12]
    entry = {{"assetId": name, "dataVersion": version}}
    if ctx.parameters.get("writes"):
        entry["payload"] = {{"file": write(f"files/{{name}}-{{version}}", text, f"{{ctx.run_id}}-{{ctx.attempt}}")}}
    return {{"assets": [entry]}}

def write(name, text, unique):
    new = pathlib.Path(f"{{name}}.{{unique}}.new")
    try:
        with new.open("w") as file:
            file.write(text + " " * 8000)
            file.flush()
            os.fsync(file.fileno())
        new.rename(name)
    finally:
        new.unlink(missing_ok=True)
    return name
"""
Window = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Flow:
    """The definition of one workflow, which makes one asset."""

    asset: str
    slug: str
    inputs: tuple[str, ...]
    salt: int = 0  # a parameter of the job
    policy: str = ""  # further fields of `autoMaterialize`
    pool: str = ""
    quiet: Window | None = None

    def yaml(self) -> str:
        """Return the definition as a file of the project."""
        consumed = ", ".join(f"{{assetId: {one}}}" for one in self.inputs)
        freshness = ", freshness: {ttl: 3s}" if self.asset == TICKER else ""
        writes = ", writes: true" if self.asset in WRITERS else ""
        head = f"pool: {self.pool}\n" if self.pool else ""
        if self.quiet:
            begin, end = (f"'{at:%H:%M}'" for at in self.quiet)
            head += f"quietHours: [{{from: {begin}, to: {end}}}]\n"
        auto = ", ".join(["onUpstreamUpdate: true", *([self.policy] if self.policy else [])])
        return (
            f"slug: {self.slug}\nparameters: {{asset: {self.asset}, salt: {self.salt}{writes}}}\n{head}steps:\n"
            "  - id: work\n    job: {kind: python, entrypoint: 'jobs:work'}\n    retry: {maxAttempts: 1}\n"
            f"    consumes: [{consumed}]\n"
            f"    produces: [{{assetId: {self.asset}, autoMaterialize: {{{auto}}}{freshness}}}]\n"
        )


@dataclass(frozen=True, slots=True)
class State:
    """All definitions at one time. Assets of `removed` are sources until their workflow comes back."""

    flows: Mapping[str, Flow] = field(default_factory=dict)  # by asset
    removed: Mapping[str, Flow] = field(default_factory=dict)
    code: int = 0

    def having(self, *flows: Flow) -> State:
        """Return the state with these workflows, changed or new."""
        new = {one.asset: one for one in flows}
        kept = {asset: one for asset, one in self.removed.items() if asset not in new}
        return replace(self, flows={**self.flows, **new}, removed=kept)

    def without(self, asset: str) -> State:
        """Return the state without the workflow that makes an asset."""
        flows = {one: flow for one, flow in self.flows.items() if one != asset}
        return replace(self, flows=flows, removed={**self.removed, asset: self.flows[asset]})

    def final(self) -> State:
        """Return the state in which everything must settle: complete, and with nothing that delays."""
        every = (*self.flows.values(), *self.removed.values())
        return self.having(*(replace(one, policy="", pool=_pool(one.asset), quiet=None) for one in every))

    def slugs(self) -> list[str]:
        return [one.slug for one in self.flows.values()]

    def versions(self, sources: Mapping[str, str]) -> dict[str, str]:
        """Return the version that every asset must end with, given the versions of the sources."""
        versions = dict(sources)
        for asset in CONSUMES:
            flow = self.flows[asset]
            versions[asset] = version(self.code, asset, flow.salt, {one: versions[one] for one in flow.inputs})
        return versions

    def write(self, root: Path) -> None:
        """Make the files of the project those of this state, each at once. Raise OSError if the disk is full."""
        wanted = {root / "workflows" / f"{asset}.yaml": flow.yaml() for asset, flow in self.flows.items()}
        wanted |= {root / "freshline.toml": 'name = "chaos"\n[pools]\none = 1\n'}
        wanted |= {root / "jobs.py": JOBS.format(code=self.code)}
        for path, text in wanted.items():
            if not path.exists() or path.read_text() != text:
                (root / ".new").write_text(text)
                (root / ".new").replace(path)
        for path in (root / "workflows").iterdir():
            if path not in wanted:
                path.unlink()


def version(code: int, asset: str, salt: int, read: Mapping[str, str]) -> str:
    """Return the version that a job makes."""
    return digest(repr((code, asset, salt, sorted(read.items()))))


def digest(content: str) -> str:
    """Return the version of a content."""
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def first_state() -> State:
    """Return the definitions at the start."""
    flows = (Flow(asset, asset, inputs, pool=_pool(asset)) for asset, inputs in CONSUMES.items())
    return State({one.asset: one for one in flows})


def write_project(root: Path, state: State) -> None:
    """Create the project."""
    for name in ("workflows", FILES):
        (root / name).mkdir(parents=True, exist_ok=True)
    state.write(root)


def code_of(jobs: str) -> int:
    """Return the number of a version of the code."""
    found = re.search(r"^CODE = (\d+)$", jobs, re.MULTILINE)
    assert found, jobs
    return int(found[1])


def damaged_files(root: Path, heads: Iterable[tuple[str, str]]) -> list[str]:
    """Return what is wrong with the files of the heads (asset and version) that are written into files."""
    found = []
    for asset, wanted in heads:
        path = root / FILES / f"{asset}-{wanted}"
        if asset in WRITERS and not (path.exists() and digest(path.read_text().rstrip()) == wanted):
            found.append(f"the file of {asset} {wanted} is {'damaged' if path.exists() else 'missing'}")
    return found


def _pool(asset: str) -> str:
    return "one" if asset in POOLED else ""
