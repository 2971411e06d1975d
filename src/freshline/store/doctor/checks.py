"""The checks of `freshline doctor` on the store: the invariant, the message for a violation, and the remedy.

The statement of a check has the same name in `sql/doctor.sql`. It returns the rows that violate the invariant, with
their total number in `total`. An error is a broken invariant, a warning is work that is not done, a note is
informational.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict


class Severity(StrEnum):
    """The severity of a finding. An installation with notes only is healthy."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """An invariant. `sentence` formats a row that violates it. `repair` says what `--fix` does; None if it cannot."""

    id: str
    severity: Severity
    meaning: str
    remedy: str
    sentence: str = "{sentence}"
    repair: str | None = None

    @property
    def statement(self) -> str:
        """The name of its statement in `sql/doctor.sql`."""
        return self.id.replace("-", "_")


class FindingDocument(TypedDict):
    """A finding as JSON."""

    id: str
    severity: str
    meaning: str
    count: int
    found: list[str]
    remedy: str | None
    fixable: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: the number of violations, and a sentence for each of the first ones."""

    check: Check
    count: int = 0
    sentences: Sequence[str] = ()
    remedy: str = ""

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be repaired."""
        return self.count == 0 or self.check.severity is Severity.NOTE

    def as_json(self) -> FindingDocument:
        """Return an entry of `doctor --json`."""
        return {
            "id": self.check.id,
            "severity": self.check.severity.value,
            "meaning": self.check.meaning,
            "count": self.count,
            "found": list(self.sentences),
            "remedy": (self.remedy or self.check.remedy) if self.count else None,
            "fixable": self.check.repair is not None,
        }


def finding(check: Check, sentences: Sequence[str], limit: int) -> Finding:
    """Return a finding with the first `limit` of these sentences."""
    return Finding(check, len(sentences), sentences[:limit])


FORGOTTEN = Check(
    "forgotten",
    Severity.ERROR,
    "a stale workflow has an active run, a consideration or an event in the inbox",
    "`freshline doctor --fix` has it evaluated; please report how it happened: an update would have been lost",
    "workflow '{slug}' is stale and no evaluation of it is planned",
    "adds a consideration, as the sweep does",
)
MATERIALIZERS_DIFFER = Check(
    "materializers-differ",
    Severity.ERROR,
    "every live materializer works with the definitions and the data of this database",
    "restart the one that is named; after a restore from a backup restart all of them",
)
ATTENDANCE = Check(
    "attendance",
    Severity.NOTE,
    "a live process with the right code and a working engine can serve each waiting item",
    "start or update what is named",
)
CLOCK = Check(
    "clock",
    Severity.NOTE,
    "the clocks of this host and the database agree; only the reading of logs depends on it",
    "synchronize both hosts with a time server",
)
SCHEMA = Check(
    "schema",
    Severity.ERROR,
    "the database has the schema that this version of Freshline needs",
    "`freshline db upgrade`, or install the version of Freshline that created the schema",
)

# The checks of one statement each, in the order of the output.
STATEMENTS = (
    Check(
        "run-doubled",
        Severity.ERROR,
        "a workflow has at most one active automatic run and at most one running run",
        "cancel all but one (`freshline cancel`), then see `index-missing`",
        "workflow '{slug}' has {found} {what} runs",
    ),
    Check(
        "index-missing",
        Severity.ERROR,
        "the unique partial indexes that make duplicates impossible exist and are valid",
        "create it again as in schema.sql, when no check finds duplicates; `freshline db status` shows the schema",
        "the unique index {name} on {of} is missing, invalid or different",
    ),
    Check(
        "head-missing",
        Severity.ERROR,
        "the head of an asset is an existing snapshot",
        "produce the asset again (`freshline run`, or `freshline report` for a source), or restore a backup",
        "the head of asset '{asset}' is version {sequence}, which {how}",
    ),
    Check(
        "head-differs",
        Severity.ERROR,
        "the head of an asset agrees with its snapshot",
        "produce the asset again (`freshline run`, or `freshline report` for a source); the database was modified",
        "the head of asset '{asset}' has data version '{head}', its snapshot {sequence} has '{snapshot}'",
    ),
    Check(
        "code-unknown",
        Severity.ERROR,
        "the code that made the rows of a head is that of an existing version of a workflow",
        "`freshline run SLUG --full-refresh` writes the table again, and says first which rows would be dropped; "
        "`freshline accept ASSET` keeps the rows; the database was modified",
        "rows of asset '{asset}' were made by version {version} of workflow number {workflow}, which does not exist",
    ),
    Check(
        "pin-missing",
        Severity.ERROR,
        "the inputs that an active run has pinned exist",
        "cancel the run (`freshline cancel`) and reset the workflow; the next run is pinned again",
        "run {run} of workflow '{slug}' has pinned version {sequence} of asset '{asset}', which does not exist",
    ),
    Check(
        "vector-ahead",
        Severity.ERROR,
        "a workflow has not consumed a version that its input never had",
        "`freshline run` of the workflow: its success stores the versions that it read; or restore the whole backup",
        "workflow '{slug}' has consumed version {sequence} of asset '{asset}', whose newest version is {last}",
    ),
    Check(
        "digest-differs",
        Severity.ERROR,
        "the digest of an asset with partitions is that of its heads",
        "`freshline doctor --fix` computes it again; the database was modified, or restored in part",
        "the digest of asset '{asset}' counts {keys} partitions, and {heads} have data or other data",
        "computes it from the heads, and has those evaluated that read the partitions",
    ),
    Check(
        "removed-has-data",
        Severity.ERROR,
        "a partition that retention removed is not in the newest version of its table",
        "write a longer `retain`, so that the partition is built again; the database was modified",
        "retention removed '{asset}@{key}', and version {version} of the table has it",
    ),
    Check(
        "definition-differs",
        Severity.ERROR,
        "the stored assets and edges are those of the applied definitions",
        "make any change to its definition, such as its priority, and apply: it is stored again",
        "workflow '{slug}' {how} asset '{asset}' and {but}",
    ),
    Check(
        "owner-retired",
        Severity.ERROR,
        "a retired workflow produces and consumes nothing",
        "`freshline doctor --fix` releases its assets and edges",
        "the retired workflow '{slug}' is still stored as a {how} of asset '{asset}'",
        "turns its assets into sources and removes its edges, as apply does",
    ),
    Check(
        "pool-overfull",
        Severity.ERROR,
        "no run starts above the limit of its pool or workflow",
        "see `index-missing`; the run ends without intervention",
        "run {run} of workflow '{slug}' has {what} {place} of {most}",
    ),
    Check(
        "timer-missing",
        Severity.ERROR,
        "an asset with a freshness policy has a timer",
        "`freshline doctor --fix` sets it",
        "asset '{asset}' of workflow '{slug}' has no {kind} timer",
        "sets it from the time of the last production, as apply does",
    ),
    Check(
        "timer-orphan",
        Severity.WARNING,
        "a timer belongs to an asset with a freshness policy",
        "`freshline doctor --fix` removes it",
        "asset '{asset}' has an {kind} timer ({reason}), and no such freshness policy",
        "removes it, as apply does",
    ),
    Check(
        "backfill-stuck",
        Severity.WARNING,
        "an active backfill goes on",
        "",
        "backfill {id} of asset '{asset}' {how}",
        "adds considerations for its open partitions, and gives turns; a materializer gives turns continuously",
    ),
    Check(
        "consideration-late",
        Severity.WARNING,
        "due considerations are evaluated",
        "",
        "workflow '{slug}' should have been evaluated {age} ago{held}",
    ),
    Check(
        "consideration-retired",
        Severity.WARNING,
        "a retired workflow has no consideration",
        "`freshline doctor --fix` removes it; so does a materializer",
        "the retired workflow '{slug}' has had a consideration for {age}",
        "removes it",
    ),
    Check(
        "event-unabsorbed",
        Severity.WARNING,
        "events are processed",
        "",
        "an event ({kind}) about {subject} has not been processed for {age}",
        "processes the waiting events, once; a materializer does so continuously",
    ),
    Check(
        "timer-late",
        Severity.WARNING,
        "timers fire when they are due",
        "",
        "the {kind} timer of asset '{asset}' should have fired {age} ago",
        "fires the due timers, once; a materializer does so continuously",
    ),
    Check(
        "lease-lost",
        Severity.WARNING,
        "the runs of lost workers are released",
        "",
        "run {run} of workflow '{slug}' lost its worker {age} ago and was not released",
        "releases them, once; a materializer does so continuously",
    ),
    Check(
        "run-unattended",
        Severity.WARNING,
        "a live process can execute each queued run",
        "start `freshline worker` in the project, with the applied files; see `freshline workers`",
        "run {run} of workflow '{slug}' (project {project}) has waited for {age}; no worker could take it",
    ),
    Check(
        "event-unstamped",
        Severity.WARNING,
        "events get their position, so that external readers see them",
        "",
        "event {type} of '{subject}' has had no position for {age}",
        "stamps the waiting events, once; a materializer does so continuously",
    ),
    Check(
        "commit-late",
        Severity.WARNING,
        "published versions are in the Delta log of their table, so that other engines see them",
        "make sure that a materializer can write to the warehouse; `freshline table repair` rewrites a log",
        "table version {version} of asset '{asset}' is not in its Delta log after {tries} tries: {trouble}",
    ),
    Check(
        "incident-stuck",
        Severity.WARNING,
        "an open incident of an alert has something that is wrong",
        "",
        "alert '{rule}' has an open incident of {root} since {since}, and nothing is wrong with it",
        "evaluates the alerts, once; a materializer does so continuously",
    ),
    Check(
        "alert-unsent",
        Severity.WARNING,
        "messages of alerts are sent",
        "try it with `freshline alert test`; `freshline alert show` lists the messages",
        "alert '{rule}' has unsent messages to {to} ({waiting}), the oldest since {since}: {trouble}",
    ),
)
STORE_CHECKS = (SCHEMA, FORGOTTEN, *STATEMENTS, MATERIALIZERS_DIFFER, ATTENDANCE, CLOCK)
