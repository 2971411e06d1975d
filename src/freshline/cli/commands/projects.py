"""`freshline project`: the names of projects."""

from __future__ import annotations

import click

from freshline.cli.app import App, json_option, pass_app, project_option
from freshline.cli.command import command, examples_text
from freshline.cli.render import output


@click.group(
    "project",
    epilog=examples_text(["freshline project rename shop store"]),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@project_option
def project() -> None:
    """Rename a project.

    The name of a project is `name` in freshline.toml, or that of its directory.
    """


@command("rename", examples=["freshline project rename shop store", "freshline project rename shop store --json"])
@click.argument("before", metavar="OLD")
@click.argument("after", metavar="NEW")
@json_option
@pass_app
def rename(app: App, *, before: str, after: str, as_json: bool) -> None:
    """Rename a stored project: its workflows, pools, sources, and queued and running runs.

    One transaction. Nothing runs because of it, and no history is lost. Then set `name` in freshline.toml and restart
    the workers of the project: a worker with the old name finishes its runs and takes no others.
    """
    with app.store() as store:
        found = store.apply.rename(before, after)
    if as_json:
        output.print_json(found)
        return
    counts = ", ".join(f"{found[name]} {name}" for name in ("workflows", "sources", "pools", "runs"))
    output.message(f"project '{before}' is now '{after}': {counts}")
    output.message(f'next: write `name = "{after}"` in freshline.toml, and restart the workers')


project.add_command(rename)
