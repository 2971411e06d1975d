"""What `freshline doctor` looks for in the store: each check with its meaning, and what to do about what it finds.

The statement of a check has its name in `sql/doctor.sql` and returns the rows that should not be there; `total` counts
them all. Severities: an error is a broken invariant, a warning is work that nobody does, a note is only told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is. A note leaves the installation healthy."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold. `sentence` tells one row; `repair` says what `--fix` does, None: it is not for us."""

    id: str
    severity: Severity
    meaning: str
    remedy: str
    sentence: str = "{sentence}"
    repair: str | None = None

    @property
    def statement(self) -> str:
        """The name of its statement."""
        return self.id.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: the first sentences, and how many there are in all. None found is a finding too."""

    check: Check
    count: int = 0
    sentences: Sequence[str] = ()
    remedy: str = ""

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done."""
        return self.count == 0 or self.check.severity is Severity.NOTE

    def as_json(self) -> dict[str, Any]:
        """One entry of `doctor --json`."""
        return {
            "id": self.check.id,
            "severity": self.check.severity.value,
            "meaning": self.check.meaning,
            "count": self.count,
            "found": list(self.sentences),
            "remedy": (self.remedy or self.check.remedy) if self.count else None,
            "fixable": self.check.repair is not None,
        }


def told(check: Check, sentences: Sequence[str], limit: int) -> Finding:
    """A finding whose sentences are all known."""
    return Finding(check, len(sentences), sentences[:limit])


FORGOTTEN = Check(
    "forgotten",
    Severity.ERROR,
    "a stale workflow has an active run, a consideration or an unabsorbed event (R4.1)",
    "`freshline doctor --fix` has it looked at; please report how it came about: an update would have been lost",
    "workflow '{slug}' is stale and nothing will look at it",
    "notes a consideration (the sweep)",
)
MATERIALIZERS_DIFFER = Check(
    "materializers-differ",
    Severity.ERROR,
    "every materializer that is there works with the definitions and the data of this database",
    "restart the one that is named; after a restore from a backup restart all of them",
)
ATTENDANCE = Check(
    "attendance",
    Severity.NOTE,
    "somebody is there for what waits, with the right code and a working engine",
    "start or update what is named",
)
CLOCK = Check(
    "clock",
    Severity.NOTE,
    "this host's clock and the database's agree; nothing depends on it, but logs are easier to read",
    "let both hosts follow a time server",
)
SCHEMA = Check(
    "schema",
    Severity.ERROR,
    "the database has the schema that this Freshline needs",
    "`freshline db upgrade`, or install the Freshline that the schema was made by",
)

# Those that are one statement each, in the order in which they are told.
STATEMENTS = (
    Check(
        "run-doubled",
        Severity.ERROR,
        "a workflow has at most one active automatic run and at most one running run (promise 2)",
        "cancel all but one (`freshline cancel`), then see `index-missing`",
        "workflow '{slug}' has {found} {what} runs",
    ),
    Check(
        "index-missing",
        Severity.ERROR,
        "the unique partial indexes that make duplicates impossible are there and valid (promise 2, R11.8)",
        "make it again as in schema.sql, when no check finds duplicates; `freshline db status` shows the schema",
        "the unique index {name} on {of} is missing, invalid or another one",
    ),
    Check(
        "head-missing",
        Severity.ERROR,
        "the head of an asset is a snapshot that is there",
        "produce the asset anew (`freshline run`, or `freshline report` for a source), or restore a backup",
        "the head of asset '{asset}' is version {sequence}, which {how}",
    ),
    Check(
        "head-differs",
        Severity.ERROR,
        "the head of an asset says what its snapshot says",
        "produce the asset anew (`freshline run`, or `freshline report` for a source); somebody wrote to the database",
        "the head of asset '{asset}' has data version '{head}', its snapshot {sequence} has '{snapshot}'",
    ),
    Check(
        "pin-missing",
        Severity.ERROR,
        "what an active run is to read is there (R9.8)",
        "cancel the run (`freshline cancel`) and reset the workflow; it is then pinned anew",
        "run {run} of workflow '{slug}' is to read version {sequence} of asset '{asset}', which is not there",
    ),
    Check(
        "vector-ahead",
        Severity.ERROR,
        "a workflow has read no version that its input never had",
        "`freshline run` of the workflow: its success stores what it really read. After a restore, restore all of it",
        "workflow '{slug}' has read version {sequence} of asset '{asset}', which has {last} versions",
    ),
    Check(
        "definition-differs",
        Severity.ERROR,
        "the stored assets and edges are those of the applied definitions",
        "change anything in its definition (its priority, say) and apply: it is stored anew",
        "workflow '{slug}' {how} asset '{asset}' and {but}",
    ),
    Check(
        "owner-retired",
        Severity.ERROR,
        "a retired workflow produces and consumes nothing (R10.2)",
        "`freshline doctor --fix` releases what it owned",
        "the retired workflow '{slug}' is still stored as a {how} of asset '{asset}'",
        "makes its assets sources and drops its edges, as apply does",
    ),
    Check(
        "pool-overfull",
        Severity.ERROR,
        "no run begins beyond the limit of its pool or workflow (R11.8)",
        "see `index-missing`; the run ends by itself",
        "run {run} of workflow '{slug}' has {what} {place} of {most}",
    ),
    Check(
        "timer-missing",
        Severity.ERROR,
        "an asset whose freshness is promised has a timer (R8.1)",
        "`freshline doctor --fix` sets it",
        "asset '{asset}' of workflow '{slug}' has no {kind} timer",
        "sets it from the time of the last production, as apply does",
    ),
    Check(
        "timer-orphan",
        Severity.WARNING,
        "a timer belongs to an asset whose freshness is promised",
        "`freshline doctor --fix` removes it",
        "asset '{asset}' has an {kind} timer ({reason}), and no such freshness is promised",
        "removes it, as apply does",
    ),
    Check(
        "consideration-late",
        Severity.WARNING,
        "whoever has to be looked at is looked at",
        "",
        "workflow '{slug}' should have been looked at {age} ago{held}",
    ),
    Check(
        "consideration-retired",
        Severity.WARNING,
        "nobody has to look at a retired workflow (R10.2)",
        "`freshline doctor --fix` drops the note; a materializer does so too",
        "the retired workflow '{slug}' is noted to be looked at for {age}",
        "drops the note",
    ),
    Check(
        "event-unabsorbed",
        Severity.WARNING,
        "what happened is looked at",
        "",
        "an event ({kind}) about {subject} was not looked at for {age}",
        "absorbs what is there, once; a materializer does so all the time",
    ),
    Check(
        "timer-late",
        Severity.WARNING,
        "timers fire when they are due (promise 8)",
        "",
        "the {kind} timer of asset '{asset}' should have fired {age} ago",
        "fires what is due, once; a materializer does so all the time",
    ),
    Check(
        "lease-lost",
        Severity.WARNING,
        "the runs of lost workers are freed (promise 9)",
        "",
        "run {run} of workflow '{slug}' lost its worker {age} ago and nobody freed it",
        "frees them, once; a materializer does so all the time",
    ),
    Check(
        "run-unattended",
        Severity.WARNING,
        "somebody is there who can execute what is queued",
        "start `freshline worker` in the project, with the files that were applied; see `freshline workers`",
        "run {run} of workflow '{slug}' (project {project}) has waited for {age}; no worker could take it",
    ),
    Check(
        "event-unstamped",
        Severity.WARNING,
        "events get their position, so that outside readers see them",
        "",
        "event {type} of '{subject}' has had no position for {age}",
        "stamps what is there, once; a materializer does so all the time",
    ),
    Check(
        "commit-late",
        Severity.WARNING,
        "what was published is in the Delta log of its table, so that other engines see it (R9.7)",
        "see that a materializer can write to the warehouse; `freshline table repair` writes a log anew",
        "table version {version} of asset '{asset}' is not in its Delta log after {tries} tries: {trouble}",
    ),
)
STORE_CHECKS = (SCHEMA, FORGOTTEN, *STATEMENTS, MATERIALIZERS_DIFFER, ATTENDANCE, CLOCK)
