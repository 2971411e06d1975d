"""Writes the last results between two markers of docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

NAME = "docs/performance.md"
BEGIN = "<!-- results: written by `make bench` -->"
END = "<!-- end of results -->"


def write(document: Mapping[str, Any], path: Path) -> None:
    """Replace the text between the markers."""
    put(path, BEGIN, END, lines(document))


def put(path: Path, begin: str, end: str, block: Iterable[str]) -> None:
    """Replace the text between two markers of a page."""
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{path} has no markers; it needs the lines {begin} and {end}")
    path.write_text("\n".join([f"{before}{begin}", "", *block, "", f"{end}{after}"]), encoding="utf-8")


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table, the chart, and the machine."""
    machine = document["machine"]
    yield (
        f"Measured on {document['at'][:10]}: {machine['cores']} cores ({machine['architecture']}),"
        f" {machine['memory_gb']} GB, {machine['system']}, Python {machine['python']}."
    )
    yield ""
    yield "![How much of each goal is used](img/performance.svg)"
    yield ""
    yield "| benchmark | figure | value | goal | met | measured (median, spread) | baseline (median, spread) |"
    yield "|---|---|---|---|---|---|---|"
    for result in document["results"]:
        for number, claim in enumerate(result["claims"]):
            sides = [_side(result, side) if number == 0 else "" for side in ("measured", "baseline")]
            name = f"`{result['name']}`" if number == 0 else ""
            cells = [name, claim["what"], f"{claim['value']:.3g}{claim['unit']}", _goal(claim), _met(claim), *sides]
            yield f"| {' | '.join(cells)} |"


def _side(result: Mapping[str, Any], side: str) -> str:
    one = result[side]
    return f"{one['median']:.3g} ({one['low']:.3g} to {one['high']:.3g}) {result['unit']}"


def _goal(claim: Mapping[str, Any]) -> str:
    if claim["limit"] is None:
        return "none"
    return f"at {'least' if claim['atLeast'] else 'most'} {claim['limit']:g}{claim['unit']}"


def _met(claim: Mapping[str, Any]) -> str:
    return {True: "yes", False: "**no**", None: ""}[claim["met"]]
