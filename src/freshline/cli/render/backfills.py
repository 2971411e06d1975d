"""Backfills as text: what one would cost, how far it is, and a strip of the states of its partitions."""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING

from freshline.cli.render import output
from freshline.cli.render.format import duration, moment, number, short, size
from freshline.cli.render.references import unit
from freshline.cli.render.table import Column, Columns, Table
from freshline.cli.render.text import Text
from freshline.model.backfill import BackfillStatus
from freshline.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from freshline.model.backfill import BackfillPolicy
    from freshline.model.documents.backfill import (
        Backfill,
        BackfillDetail,
        BackfillPart,
        BackfillPreview,
        BackfillProgress,
        PreviewPart,
    )
    from freshline.model.documents.partition import PartitionRange
    from freshline.model.json import Json

STRIP = 60
MOST_FAILURES = 10
BACKFILLS: Columns = [
    "BACKFILL",
    "ASSET",
    "STATUS",
    "DONE",
    Column("FAILED", drop=1),
    Column("ENDS", drop=2),
    Column("REQUESTED", drop=3),
    Column("BY", drop=4),
]
PARTS: Columns = ["WORKFLOW", "PARTITIONS", "FROM", "TO", "RUNS", Column("ONE RUN", drop=1), Column("DATA", drop=2)]
# The first state that a part of the strip holds is shown.
MARKS = {
    "failed": ("✗", "bold red"),
    "refused": ("!", "magenta"),
    "running": ("▶", "bright_blue"),
    "queued": ("▷", "yellow"),
    "waiting": ("○", "yellow"),
    "rest": ("·", "dim"),
    "done": ("■", "green"),
}


def cells(one: Backfill) -> list[str | Text]:
    """Return the cells of a backfill in a list."""
    progress = one["progress"]
    failed = progress["failed"] + progress["refused"]
    return [
        short(one["id"]),
        one["assetId"],
        output.coloured(one["status"]),
        _share(progress),
        str(failed) if failed else "-",
        _end(one),
        moment(one["requestedAt"]),
        one["requestedBy"] or "-",
    ]


def proposal_hint(found: Sequence[Backfill]) -> str | None:
    """Return what to do about listed proposals; None without any."""
    proposed = [one for one in found if one["status"] == BackfillStatus.PROPOSED]
    if not proposed:
        return None
    number = short(proposed[0]["id"])
    waits = "1 proposal waits" if len(proposed) == 1 else f"{len(proposed)} proposals wait"
    return f"{waits} for an approval; `freshline backfill show {number}` shows what it would run and how to answer"


def _share(progress: BackfillProgress) -> str:
    done, total = progress["done"], progress["total"]
    return f"{done:,} of {total:,} ({done * 100 // total if total else 0} %)"


def _end(one: Backfill) -> str:
    if one["endedAt"]:
        return f"ended {moment(one['endedAt'])}"
    return f"in {duration(one['etaMs'] / 1000)}" if one["etaMs"] is not None else "-"


def detail_parts(found: BackfillDetail, *, answers: bool = True) -> list[str | Text | Table]:
    """Return a backfill in full: its progress, a strip per workflow, and what failed.

    `answers`: say how a proposal is answered.
    """
    title = Text((f"backfill {found['id']}", "bold"), f" of {found['assetId']} is ", output.coloured(found["status"]))
    if found["status"] == BackfillStatus.PROPOSED and found["cost"] is not None:
        return [title, *_proposal_parts(found, found["cost"]), *(_answers(found) if answers else ())]
    parts: list[str | Text | Table] = [title, _progress_text(found), ""]
    width = max((len(one["workflowSlug"]) for one in found["parts"]), default=0)
    parts += [_part_line(one, width) for one in found["parts"]]
    parts.append(Text((_legend(found["parts"], ended=found["endedAt"] is not None), "dim")))
    parts += _waiting(found)
    failures = found["failures"]
    parts += [Text((f"{unit(one)} {one['state']}", "red")) for one in islice(failures, MOST_FAILURES)]
    if len(failures) > MOST_FAILURES:
        parts.append(Text((f"and {len(failures) - MOST_FAILURES} more; --json has all", "dim")))
    if failures and found["status"] not in {BackfillStatus.CANCELED, BackfillStatus.DENIED}:
        parts.append(f"`freshline backfill retry {short(found['id'])}` tries them again")
    return parts


def _waiting(found: BackfillDetail) -> Iterator[str]:
    """Yield how to find out what the newest partition waits for that had its turn."""
    for part in found["parts"]:
        for one in part["states"]:
            if one["state"] == "waiting" and not found["endedAt"]:
                where = f" --partition {quote(one['to'])}" if one["to"] else ""
                yield f"`freshline why {part['workflowSlug']}{where}` says what a waiting partition waits for"
                return


def _proposal_parts(found: BackfillDetail, cost: BackfillPreview) -> list[str | Text | Table]:
    """Return what a proposal would compute, and why."""
    return [
        f"{counted(found['progress']['total'], 'old partition')} would run, and wait for an approval",
        *(f"  {reason_text(one)}" for one in found["reasons"] or ()),
        "",
        Table.of(PARTS, [_preview_cells(one) for one in cost["parts"]]),
        _time_text(cost, found["concurrency"]),
        *_notes(cost),
    ]


def _answers(found: BackfillDetail) -> list[str]:
    number, revision = short(found["id"]), found["revision"]
    return [
        "",
        f"`freshline backfill approve {number} --revision {revision}` runs them",
        f"`freshline backfill deny {number} --revision {revision}` leaves them as they are",
    ]


def reason_text(reason: Json) -> str:
    """Return one reason of a proposal as a line."""
    count = counted(reason["partitions"], "partition")
    what = "another job made their data"
    if reason.get("missing"):
        what = "never computed"
    elif "workflowVersion" in reason:
        what = f"the code changed (version {reason['workflowVersion']})"
    elif "assetId" in reason:
        version = reason.get("dataVersion")
        what = f"input '{reason['assetId']}' changed" + (f" to {version}" if version else "")
    elif reason.get("expired"):
        what = "expired"
    return f"{reason['workflowSlug']}: {count}, {what}"


def _progress_text(found: BackfillDetail) -> str:
    progress = found["progress"]
    counts = {name: value for name, value in progress.items() if name not in {"total", "done"} and value}
    names = _ENDED_NAMES if found["endedAt"] else _NAMES
    rest = "".join(f", {value:,} {names.get(name, name)}" for name, value in counts.items())
    end = _end(found)
    eta = f"; ends {end}" if end.startswith("in ") else f"; {end}" if end != "-" else ""
    later = f"; not before {moment(found['notBefore'])}" if found["notBefore"] and not found["endedAt"] else ""
    verb = "is" if progress["done"] == 1 else "are"
    return f"{_share(progress)} {verb} done{rest}{eta}{later}"


_NAMES = {"rest": "to come"}
_ENDED_NAMES = {"rest": "not computed"}


def _part_line(one: BackfillPart, width: int) -> Text:
    done = f" {_share(one)}"
    return Text(f"{one['workflowSlug']:<{width}}  ", strip(one["states"]), done)


def strip(states: Sequence[PartitionRange], width: int = STRIP) -> Text:
    """Return the states of partitions, the oldest first, in at most `width` characters."""
    total = sum(one["count"] for one in states)
    if not total:
        return Text("")
    held: list[set[str]] = [set() for _ in range(min(width, total))]
    place = 0
    for one in reversed(states):
        last = place + one["count"] - 1
        for index in range(place * len(held) // total, last * len(held) // total + 1):
            held[index].add(one["state"])
        place = last + 1
    return Text(*(next(mark for state, mark in MARKS.items() if state in found) for found in held))


def _legend(parts: Sequence[BackfillPart], *, ended: bool) -> str:
    shown = {one["state"] for part in parts for one in part["states"]}
    names = _ENDED_NAMES if ended else _NAMES
    return "  ".join(f"{mark} {names.get(state, state)}" for state, (mark, _) in MARKS.items() if state in shown)


def preview_parts(preview: BackfillPreview, policy: BackfillPolicy) -> list[str | Text | Table]:
    """Return what a backfill would compute, and what that costs."""
    parts: list[str | Text | Table] = [
        Text((f"backfill of {preview['assetId']}", "bold"), f": {counted(preview['partitions'], 'partition')}"),
        Table.of(PARTS, [_preview_cells(one) for one in preview["parts"]]),
    ]
    if text := _time_text(preview, policy.concurrency):
        parts.append(text)
    if policy.not_before is not None:
        parts.append(f"not before {moment(policy.not_before.isoformat())}")
    parts += _ages(preview, policy)
    parts += _notes(preview)
    return parts


def _ages(preview: BackfillPreview, policy: BackfillPolicy) -> list[str | Text | Table]:
    frozen, sealed, outside = (sum(one[name] for one in preview["parts"]) for name in ("frozen", "sealed", "outside"))
    lacking = "computed from what is left" if policy.partial else "refused; `--partial` computes them from what is left"
    found: list[str | Text | Table] = []
    if frozen:
        found.append(f"{counted(frozen, 'partition')} frozen: computed only for this backfill")
    if sealed:
        found.append(f"{counted(sealed, 'partition')} sealed, because retention has removed inputs: {lacking}")
    if outside:
        found.append(f"{counted(outside, 'partition')} outside: removed by retention, and not computed")
    return found


def _preview_cells(one: PreviewPart) -> list[str]:
    run = "-" if one["p50Ms"] is None else f"{duration(one['p50Ms'] / 1000)} to {duration((one['p95Ms'] or 0) / 1000)}"
    data = "-" if one["rows"] is None else f"{number(one['rows'])} rows, {size(one['bytes'])}"
    # Newest first or oldest first: a range is read from its begin to its end.
    keys = sorted((one["first"], one["last"])) if one["partitions"] > 1 else [one["first"] or "-", ""]
    return [one["workflowSlug"], f"{one['partitions']:,}", *keys, f"{one['runs']:,}", run, data]


def _time_text(preview: BackfillPreview, concurrency: int) -> str:
    measured = [one for one in preview["parts"] if one["p50Ms"] is not None]
    if not measured:
        return "no run was measured yet, so it is not known how long this takes"
    shares = [
        sum(one["runs"] * (one[field] or 0) for one in measured) / concurrency / 1000 for field in ("p50Ms", "p95Ms")
    ]
    unknown = len(preview["parts"]) - len(measured)
    missing = f"; {counted(unknown, 'workflow')} not measured yet" if unknown else ""
    at_once = counted(concurrency, "run")
    return f"about {duration(shares[0])}, at most {duration(shares[1])} with {at_once} at a time{missing}"


def _notes(preview: BackfillPreview) -> list[str | Text | Table]:
    found: list[str | Text | Table] = []
    if preview["downstream"]:
        names = ", ".join(f"{one['workflowSlug']} ({one['partitions']:,})" for one in preview["downstream"])
        found.append(f"what reads them runs too, if its input changes: {names}")
    return found
