"""`freshline pause`, `resume` and `reset`: control of a workflow's automatic runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.cli.render.format import parse_when

if TYPE_CHECKING:
    from freshline.cli.backend.protocol import Backend


@command(
    "pause",
    examples=[
        "freshline pause flights-delay",
        "freshline pause flights-delay --until 2h",
        "freshline pause flights-delay --until 2026-01-31T18:00",
    ],
)
@click.argument("slug")
@click.option(
    "--until", metavar="T", help="An ISO time (here, if it has no zone) or a duration from now. Default: no end."
)
@json_option
@pass_app
def pause(app: App, *, slug: str, until: str | None, as_json: bool) -> None:
    """Hold a workflow's automatic runs. Queued ones are canceled; their causes stay pending.

    A running run finishes. Nothing is lost: after the pause one run catches up.
    """
    with app.backend() as store:
        store.operations.pause(slug, parse_when(until, store.reader.now()) if until else None)
        _answer(store, slug, f"{slug} is paused" + (f" until {until}" if until else ""), as_json=as_json)


@command("resume", examples=["freshline resume flights-delay"])
@click.argument("slug")
@json_option
@pass_app
def resume(app: App, *, slug: str, as_json: bool) -> None:
    """End a pause. If inputs changed in the meantime, one run catches up."""
    with app.backend() as store:
        store.operations.resume(slug)
        _answer(store, slug, f"{slug} is not paused", as_json=as_json)


@command("reset", examples=["freshline reset flights-delay"])
@click.argument("slug")
@json_option
@pass_app
def reset(app: App, *, slug: str, as_json: bool) -> None:
    """End a workflow's cooldown, close its breaker and forget a cancellation, so that it is tried again now."""
    with app.backend() as store:
        store.operations.reset(slug)
        _answer(store, slug, f"{slug} is reset: no failures, breaker closed", as_json=as_json)


def _answer(store: Backend, slug: str, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(store.reader.status(slug)["workflows"][0])
    else:
        output.message(sentence)
