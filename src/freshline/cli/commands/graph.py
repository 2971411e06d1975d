"""`freshline graph`: lineage as a tree, as DOT or as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.text import Text
from freshline.model.documents.asset import Graph
from freshline.model.documents.status import Status


@command(
    "graph",
    examples=[
        "freshline graph",
        "freshline graph flights.clean",
        "freshline graph --format dot | dot -Tsvg > graph.svg",
    ],
)
@click.argument("asset", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["tree", "dot", "json"]),
    default="tree",
    show_default=True,
    help="How to draw.",
)
@json_option
@pass_app
def graph(app: App, *, asset: str | None, form: str, as_json: bool) -> None:
    """Show which assets are made from which. With an asset: its ancestors and descendants.

    In the tree an asset's children are made from it; an asset that was drawn before is marked `(above)`.
    In DOT an input that may not trigger is dotted.
    """
    with app.read_backend() as reader:
        found = reader.graph(asset)
        states = {} if form != "tree" or as_json else _states(reader.status())
    if as_json or form == "json":
        output.print_json(found)
    elif form == "dot":
        click.echo(dot(found))
    else:
        _draw(found, states, asset)


def dot(found: Graph) -> str:
    """Return the graph in the DOT language: boxes are assets, arrows have the workflow's slug."""
    lines = ["digraph freshline {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  {_quoted(a['assetId'])}{' [shape=oval]' if a['source'] else ''};" for a in found["assets"]]
    for edge in found["edges"]:
        style = "" if edge["triggers"] else ", style=dotted"
        lines.append(
            f"  {_quoted(edge['from'])} -> {_quoted(edge['to'])} [label={_quoted(edge['workflowSlug'])}{style}];"
        )
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _states(status: Status) -> dict[str, str]:
    return {one["assetId"]: one["state"] for one in status["assets"]}


def _draw(found: Graph, states: dict[str, str], marked: str | None) -> None:
    if not found["assets"]:
        output.message("nothing is applied yet; `freshline apply` stores a project's definitions")
        return
    forest = _Forest(found, states, marked)
    for root in forest.roots():
        for line in forest.lines(root):
            output.show(line)


class _Forest:
    """Draws every asset once with its children, and refers to it afterwards."""

    def __init__(self, found: Graph, states: dict[str, str], marked: str | None) -> None:
        self._assets = {one["assetId"]: one for one in found["assets"]}
        self._children: dict[str, list[str]] = {name: [] for name in self._assets}
        for edge in found["edges"]:
            self._children[edge["from"]].append(edge["to"])
        self._states = states
        self._marked = marked
        self._drawn: set[str] = set()

    def roots(self) -> list[str]:
        return [name for name, one in self._assets.items() if not one["consumes"]]

    def lines(self, root: str) -> Iterator[Text]:
        """Depth first without recursion: chains may be long."""
        yield self._label(root)
        self._drawn.add(root)
        stack = [("", self._children[root][::-1])]
        while stack:
            prefix, rest = stack[-1]
            if not rest:
                stack.pop()
                continue
            child = rest.pop()
            yield Text(prefix + ("├── " if rest else "└── "), self._label(child))
            if child not in self._drawn:
                self._drawn.add(child)
                stack.append((prefix + ("│   " if rest else "    "), self._children[child][::-1]))

    def _label(self, name: str) -> Text:
        slug = self._assets[name]["workflowSlug"]
        state = output.coloured(self._states[name]) if name in self._states and slug else None
        return Text(
            (name, "bold reverse" if name == self._marked else ""),
            (f"  {slug}" if slug else "  source", "dim"),
            Text("  ", state) if state else "",
            ("  (above)" if name in self._drawn else "", "dim"),
        )
