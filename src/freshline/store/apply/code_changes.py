"""What an apply of changed code means for tables that are appended to or merged (docs/semantics.md#R9.9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from freshline.definitions.loading.project import Project
from freshline.definitions.steps import produced
from freshline.model.documents.status import OlderCode
from freshline.store.db.database import Connection
from freshline.store.db.queries import load
from freshline.store.operations.full_refresh import losses
from freshline.store.read import older_code
from freshline.store.read.code_question import question
from freshline.store.read.session import ReadSession

SQL = load("apply")
OPERATIONS = load("operations")
READ = load("read")


class Questions(NamedTuple):
    """What somebody has to decide about after an apply, by asset, and all that concerns rows of older code in words."""

    undecided: Mapping[str, OlderCode]
    sentences: tuple[str, ...]


def questions(connection: Connection, slugs: Collection[str]) -> Questions:
    """Return what waits for a decision in the tables of these workflows, and what is computed again by itself."""
    rows = connection.execute(SQL["incremental_tables"], {"slugs": sorted(slugs)}).fetchall()
    asked = older_code.read(ReadSession(connection, READ), [row["id"] for row in rows])
    found = []
    for row in rows:
        name = row["id"]
        if name in asked:
            found.append(question(name, row["slug"], asked[name]))
        elif row["rebuilds"]:
            lost = next(losses(connection, {"id": row["workflow_id"]}, ""), None)
            found.append(_rebuilt(name) if lost is None else _not_rebuilt(name, str(lost)))
    return Questions(asked, tuple(found))


def accept(connection: Connection, project: Project) -> None:
    """Accept rows of older code in all tables of a project: `--baseline now` takes the data as it is."""
    assets = sorted({asset_id for loaded in project.workflows for asset_id in produced(loaded.definition)})
    connection.execute(OPERATIONS["accept_code"], {"assets": assets})


def _rebuilt(name: str) -> str:
    return f"{name} is computed again by the next run: its code changed, and its onCodeChange is 'rebuild'"


def _not_rebuilt(name: str, lost: str) -> str:
    return (
        f"{name} is not computed again by itself, although its onCodeChange is 'rebuild', because rows would be lost: "
        f"{lost}; it will need a decision"
    )
