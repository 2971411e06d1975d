"""Random changes of definitions: workflows leave, come back, get other names, and take over assets of others."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.random_histories.histories import Shape, outputs, random_policy, random_workflow
from tests.store_harness import workflow

CALM = ("policy", "policy", "job", "inputs", "retire")
STORM = (*CALM, "retire", "rename", "rename", "move", "swap", "drop")


def change(rng: random.Random, shape: Shape, *, storm: bool) -> str:
    """Edit one definition, and return what was changed. A change that would close a cycle is taken back."""
    slug = rng.choice(list(shape.definitions))
    if slug in shape.retired:
        shape.retired.discard(slug)
        return f"{slug} is back"
    kind = rng.choice(STORM if storm else CALM)
    before = shape.copy()
    said = KINDS[kind](rng, shape, slug)
    if shape.sort():
        return said
    shape.restore(before)
    return f"{said} (a cycle)"


def _retire(rng: random.Random, shape: Shape, slug: str) -> str:
    """Remove a workflow; one workflow always stays."""
    if len(shape.retired) + 1 == len(shape.definitions):
        return _policy(rng, shape, slug)
    shape.retired.add(slug)
    return f"{slug} is removed"


def _job(rng: random.Random, shape: Shape, slug: str) -> str:
    shape.definitions[slug]["steps"][0]["job"]["entrypoint"] = f"jobs:work{rng.randint(1, 3)}"
    return f"{slug} has another job"


def _policy(rng: random.Random, shape: Shape, slug: str) -> str:
    before = shape.definitions[slug]
    read = before["steps"][0]["consumes"]
    more = random_policy(rng, rooted=not read, plain=shape.dense and rng.random() < 0.7)
    edited = workflow(slug, read, outputs=outputs(before), **more)
    edited["steps"][0]["job"] = before["steps"][0]["job"]
    shape.definitions[slug] = edited
    return f"{slug} has another policy"


def _inputs(rng: random.Random, shape: Shape, slug: str) -> str:
    before = shape.definitions[slug]
    edited = random_workflow(rng, slug, shape.above(slug), dense=shape.dense)
    edited["steps"][0]["produces"] = _produces(edited, outputs(before))
    shape.definitions[slug] = edited
    return f"{slug} has other inputs"


def _rename(rng: random.Random, shape: Shape, slug: str) -> str:
    """Give a workflow another name, which it may have had before. It takes over its assets."""
    names = [name for end in ("", "a", "b") if (name := f"{slug[:2]}{end}") not in shape.definitions]
    if not names:
        return _policy(rng, shape, slug)
    name = rng.choice(names)
    shape.definitions = {
        name if one == slug else one: {**definition, "slug": name} if one == slug else definition
        for one, definition in shape.definitions.items()
    }
    if slug in shape.flaky:
        shape.flaky[name] = shape.flaky[slug]
    return f"{slug} is now {name}"


def _move(rng: random.Random, shape: Shape, slug: str) -> str:
    """Move an asset to another workflow, if its own has several."""
    moved = outputs(shape.definitions[slug])
    others = [one for one in shape.definitions if one != slug]
    if len(moved) < 2 or not others:
        return _swap(rng, shape, slug)
    other, asset_id = rng.choice(others), rng.choice(moved)
    _own(shape, slug, [one for one in moved if one != asset_id])
    _own(shape, other, [*outputs(shape.definitions[other]), asset_id])
    return f"{asset_id} moves from {slug} to {other}"


def _swap(rng: random.Random, shape: Shape, slug: str) -> str:
    """Exchange the assets of two workflows."""
    others = [one for one in shape.definitions if one != slug]
    if not others:
        return _policy(rng, shape, slug)
    other = rng.choice(others)
    mine, theirs = outputs(shape.definitions[slug]), outputs(shape.definitions[other])
    _own(shape, slug, theirs)
    _own(shape, other, mine)
    return f"{slug} and {other} exchange their assets"


def _drop(rng: random.Random, shape: Shape, slug: str) -> str:
    """Add an asset to a workflow, or take it away again."""
    asset_id, made = f"{slug[:2]}.more", outputs(shape.definitions[slug])
    if asset_id in made and len(made) > 1:
        _own(shape, slug, [one for one in made if one != asset_id])
        return f"{slug} drops {asset_id}"
    if any(asset_id in outputs(one) for one in shape.definitions.values()):
        return _policy(rng, shape, slug)
    _own(shape, slug, [*made, asset_id])
    return f"{slug} adds {asset_id}"


def _own(shape: Shape, slug: str, assets: list[str]) -> None:
    """Let a workflow produce these assets, and read none of them."""
    step = shape.definitions[slug]["steps"][0]
    step["produces"] = _produces(shape.definitions[slug], assets)
    step["consumes"] = [one for one in step["consumes"] if one["assetId"] not in assets]


def _produces(definition: dict[str, Any], assets: list[str]) -> list[dict[str, Any]]:
    pattern = definition["steps"][0]["produces"][0]
    return [{**pattern, "assetId": asset_id} for asset_id in assets]


KINDS: dict[str, Callable[[random.Random, Shape, str], str]] = {
    "policy": _policy,
    "job": _job,
    "inputs": _inputs,
    "retire": _retire,
    "rename": _rename,
    "move": _move,
    "swap": _swap,
    "drop": _drop,
}
