"""Which rows a full refresh would drop for ever: those that the inputs of their table no longer hold.

A table that is appended to or merged, or that reads its own previous version, collects rows of all versions of its
inputs. A full refresh computes it from what the inputs hold now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from freshline.definitions.schema.workflow import Consumes, Produces, Step, Workflow
from freshline.errors import ConfirmationError
from freshline.model.json import Json
from freshline.plural import counted
from freshline.store.db.database import Connection, Row
from freshline.store.db.queries import load

SQL = load("operations")
MOST_NAMED = 5


class Loss(NamedTuple):
    """A table with rows that cannot be computed again, and its inputs that hold only their newest version."""

    asset_id: str
    version: int
    rows: int
    versions: int
    inputs: list[str]

    def __str__(self) -> str:
        inputs = ", ".join(f"'{one}'" for one in self.inputs)
        hold = "input {} holds only its" if len(self.inputs) == 1 else "inputs {} hold only their"
        rows, versions = counted(self.rows, "row"), counted(self.versions, "version")
        return f"'{self.asset_id}' has {rows} of {versions}, and its {hold.format(inputs)} newest version"


def refuse_losses(connection: Connection, workflow: Row, partition_key: str) -> None:
    """Raise an error that says which rows a full refresh would drop, if there are any."""
    found = list(losses(connection, workflow, partition_key))
    if not found:
        return
    named = "; ".join(str(one) for one in found[:MOST_NAMED])
    more = f"; and {counted(len(found) - MOST_NAMED, 'more table')}" if len(found) > MOST_NAMED else ""
    first = found[0]
    raise ConfirmationError(
        f"a full refresh of '{workflow['slug']}' drops rows that cannot be computed again: {named}{more}",
        hint="if that is intended, repeat it with --yes (`confirm` over the API); `freshline table rollback "
        f"{first.asset_id} --to {first.version}` brings the rows back as long as that version is kept",
    )


def losses(connection: Connection, workflow: Row, partition_key: str) -> Iterator[Loss]:
    """Yield the tables of a workflow that a full refresh may make smaller for ever."""
    asked = {"workflow": workflow["id"], "partition": partition_key}
    stored = connection.execute(SQL["stored_definition"], asked).fetchone()
    if stored is None:
        return
    plan = _Plan.of(Workflow.model_validate(stored["definition"]))
    inputs = {row["asset_id"]: row for row in connection.execute(SQL["input_facts"], asked).fetchall()}
    for row in connection.execute(SQL["table_facts"], asked).fetchall():
        step, output = plan.outputs.get(row["asset_id"], (None, None))
        if step is None or output is None:
            continue
        forgetful = sorted(one for one in plan.sources(step) if one in inputs and not _holds_all(inputs[one]))
        versions = _versions(step, output, row)
        moved = any(inputs[one]["data_version"] != _read(row, one) for one in forgetful)
        if forgetful and versions and (versions > 1 or moved):
            yield Loss(row["asset_id"], row["sequence"], row["rows"], versions, forgetful)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The outputs of a workflow by asset, each with its step."""

    outputs: dict[str, tuple[Step, Produces]]

    @staticmethod
    def of(definition: Workflow) -> _Plan:
        return _Plan({output.asset_id: (step, output) for step in definition.steps for output in step.produces})

    def sources(self, step: Step) -> set[str]:
        """Return the inputs of the workflow that the rows of a step's outputs come from."""
        found = set[str]()
        for item in _read_items(step):
            producer = self.outputs.get(item.asset_id)
            if producer is None:
                found.add(item.asset_id)
            elif producer[0] is not step:
                found |= self.sources(producer[0])
        return found


def _read_items(step: Step) -> list[Consumes]:
    """Return the inputs that rows come from: beside `rows: new` the others are looked up in."""
    return [item for item in step.consumes if item.rows == "new"] or list(step.consumes)


def _versions(step: Step, output: Produces, row: Row) -> int:
    """Return how many versions of the inputs the table has collected; 0 for a table that does not collect."""
    mode = output.table.mode if output.table else "overwrite"
    if mode == "append":
        return int(row["appended"] or 1)
    own = any(item.asset_id == output.asset_id for item in step.consumes)
    return int(row["sequence"]) if own or mode == "merge" else 0


def _holds_all(row: Row) -> bool:
    """Return whether an input still holds all rows that it ever had: it is only appended to."""
    declaration: Json = row["declaration"] or {}
    kind = declaration if row["is_source"] else declaration.get("table") or {}
    return bool(kind.get("mode") == "append")


def _read(row: Row, asset_id: str) -> str | None:
    read = (row["inputs"] or {}).get(asset_id) or {}
    version: str | None = read.get("dataVersion")
    return version
