"""`freshline accept`: rows of older code stay as they are."""

from __future__ import annotations

import click

from freshline.cli.app import App, json_option, pass_app
from freshline.cli.command import command
from freshline.cli.render import output
from freshline.store.read.code_question import accepted


@command("accept", examples=["freshline accept sessions.pages", "freshline accept sessions.pages --json"])
@click.argument("asset")
@json_option
@pass_app
def accept(app: App, *, asset: str, as_json: bool) -> None:
    """Accept rows of older code in a table that is appended to or merged, in all of its partitions.

    It is one answer to "needs decision" in `freshline status`. The other one is `freshline run SLUG --full-refresh`.
    The next change of the job asks again.
    """
    with app.backend() as store:
        found = store.operations.accept(asset)
    if as_json:
        output.print_json(found)
    else:
        output.message(f"{asset}: {accepted(found)}")
