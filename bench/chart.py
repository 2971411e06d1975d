"""SVG chart of the results: each claim as a share of its goal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

NAME = "docs/img/performance.svg"
WIDTH, ROW, TOP, LEFT, RIGHT = 860, 30, 64, 330, 150
LABEL = 44  # characters
MOST = 1.5  # goals; a longer bar is cut, its figure is shown
STYLE = """
    .paper { fill: #ffffff; stroke: #d0d7de; }
    .met { fill: #1a7f37; }
    .missed { fill: #cf222e; }
    .goal { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 5 4; }
    .name { fill: #1f2328; text-anchor: end; }
    .note { fill: #424a53; font-size: 12px; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117; stroke: #3d444d; }
      .met { fill: #3fb950; }
      .missed { fill: #f85149; }
      .goal { stroke: #9198a1; }
      .name { fill: #f0f6fc; }
      .note { fill: #c9d1d9; }
    }
"""


def write(document: Mapping[str, Any], path: Path) -> None:
    """Draw the claims that have a goal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(draw(document)) + "\n", encoding="utf-8")


def draw(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the SVG."""
    bars = [(result["name"], claim) for result in document["results"] for claim in result["claims"] if claim["limit"]]
    height = TOP + ROW * len(bars) + 16
    goal = LEFT + _width(1.0)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="14">'
    )
    yield '  <title id="title">How much of each goal is used</title>'
    description = "; ".join(f"{name}, {_description(claim)}" for name, claim in bars)
    yield f'  <desc id="desc">Shorter is better; the dashed line is the goal. {escape(description)}.</desc>'
    yield f"  <style>{STYLE}  </style>"
    yield f'  <rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>'
    yield f'  <text class="note" x="{goal + 6}" y="40">the goal; shorter is better ({document["at"][:10]})</text>'
    for number, (name, claim) in enumerate(bars):
        yield from _bar(name, claim, TOP + ROW * number)
    yield f'  <path class="goal" d="M{goal} 46V{height - 12}"/>'
    yield "</svg>"


def _bar(name: str, claim: Mapping[str, Any], top: int) -> Iterator[str]:
    width = _width(min(MOST, share(claim)))
    kind = "met" if claim["met"] else "missed"
    yield f'  <text class="name" x="{LEFT - 10}" y="{top + 16}">{escape(_label(name, claim))}</text>'
    yield f'  <rect class="{kind}" x="{LEFT}" y="{top + 4}" width="{width}" height="16" rx="3"/>'
    figure = escape(f"{claim['value']:.3g}{claim['unit']}")
    yield f'  <text class="note" x="{LEFT + width + 8}" y="{top + 17}">{figure}</text>'


def share(claim: Mapping[str, Any]) -> float:
    """Return the share of the goal that is used: 1 is the goal, less is better."""
    value, limit = float(claim["value"]), float(claim["limit"])
    return limit / max(value, 1e-9) if claim["atLeast"] else value / limit


def _width(goals: float) -> int:
    return round(max(2.0, goals * (WIDTH - LEFT - RIGHT) / MOST))


def _label(name: str, claim: Mapping[str, Any]) -> str:
    text = f"{name}: {claim['what'].split(',')[0]}"
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def _description(claim: Mapping[str, Any]) -> str:
    limit = f"at {'least' if claim['atLeast'] else 'most'} {claim['limit']:g}{claim['unit']}"
    return f"{claim['what']}: {claim['value']:.3g}{claim['unit']}, goal {limit}"
