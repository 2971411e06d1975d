"""Redefinitions of the project under load, and the record of what was applied when."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from freshline.definitions.loading.project import load_project
from freshline.store.store import Store
from tests.chaos.chaos_workload import CONSUMES, SOURCES, Flow, State
from tests.chaos.insisting import Insisting
from tests.chaos.repeating import Repeating

PAUSE_S = (0.3, 2.3)
POLICIES = (
    "",
    "debounceMs: 400, maxDelayMs: 1500",
    "maxWaitMs: 300",
    "maxWaitMs: 4000",
    "priority: 3",
    "minIntervalMs: 700",
)
COMPLETE = "when: all"  # for joins
QUIET_S = (5.0, 20.0)
SOON = timedelta(seconds=25)
MINUTE = timedelta(minutes=1)
BY_COMMAND = 0.12  # as a process, of which every second one is killed


@dataclass(slots=True)
class Applied:
    """A state, and when it was certainly in force by the time of the database: after `done`, until `over`.

    Its transaction committed after `begun` and before `done`.
    """

    state: State
    begun: datetime
    done: datetime
    over: datetime | None = None
    rebuilt: bool = False  # on a restored database: what it changed is not known


class Redefinitions:
    """Edits the project again and again. `gate` is held while a state is applied."""

    def __init__(self, url: str, root: Path, state: State, seed: int, environ: Callable[[], Mapping[str, str]]) -> None:
        self._root = root
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._insisting = Insisting(url, root, "chaos-apply")
        self._environ = environ
        self._repeating = Repeating("redefinitions", self._redefine, self._rng, PAUSE_S)
        self._quiet_ends: float | None = None
        self._number = 0
        self.gate = self._repeating.gate
        self.state = state
        self.log: list[Applied] = []
        self.codes: dict[str, int] = {}  # by hash
        self.done: Counter[str] = Counter()
        self.kills = 0

    def start(self) -> None:
        """Apply the first state."""
        self._insisting.open()
        self.apply(self.state)

    def begin(self) -> None:
        """Begin with the redefinitions."""
        self._repeating.start()

    def stop(self) -> None:
        """Stop, and apply the final state."""
        self._repeating.stop()
        self.apply(self.state.final())

    def close(self) -> None:
        self._repeating.end()
        self._insisting.close()

    def slugs(self) -> list[str]:
        """Return the slugs of the workflows that are there now."""
        return self.state.slugs()

    def now(self) -> datetime:
        """Return the time of the database."""
        return self._insisting.now()

    # --- applying ---------------------------------------------------------------------------------------------------

    def interrupt(self, at: datetime) -> None:
        """Note that the database is lost from a time on."""
        if self.log and self.log[-1].over is None:
            self.log[-1].over = at

    def apply(self, state: State, *, rebuilt: bool = False) -> None:
        """Write the files and apply them until there is an answer, now and then by a command that is killed."""
        begun = self._insisting.now()
        self.interrupt(begun)
        self._insisting.call(lambda _: state.write(self._root))
        if self.log and self._rng.random() < BY_COMMAND:
            self._command()
        hashed = self._insisting.call(self._commit)
        self.codes[hashed] = state.code
        self.state = state
        self.log.append(Applied(state, begun, self._insisting.now(), rebuilt=rebuilt))

    def _commit(self, store: Store) -> str:
        project = load_project(self._root)
        store.apply.commit(project)
        return project.code_hash

    def _command(self) -> None:
        """Run `freshline apply`, and kill it with kill -9 in every second case. The caller applies again."""
        command = [sys.executable, "-m", "freshline.cli.main", "apply", "--yes"]
        with subprocess.Popen(
            command,
            env=dict(self._environ()),
            cwd=self._root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            patience = self._rng.uniform(0.5, 2.5) if self._rng.random() < 0.5 else 60
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                    self.kills += 1
                    self.done["kill an apply"] += 1

    # --- redefinitions ----------------------------------------------------------------------------------------------

    def _redefine(self) -> None:
        self._number += 1
        if self._quiet_ends is not None and time.monotonic() > self._quiet_ends:
            self._quiet_ends = None
            self._change("end quiet hours", *(replace(one, quiet=None) for one in self._quiet()))
            return
        kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "remove a workflow": (12, self._remove),
            "add a workflow again": (14, self._add),
            "report an asset of a removed workflow": (6, self._report_outside),
            "edit a policy": (16, self._edit_policy),
            "edit a parameter": (16, self._edit_parameter),
            "edit the inputs": (12, self._edit_inputs),
            "rename a workflow": (8, self._rename),
            "edit the code": (4, self._edit_code),
            "begin quiet hours": (14, self._begin_quiet),
        }
        names, weights = zip(*((name, weight) for name, (weight, _) in kinds.items()), strict=True)
        kinds[self._rng.choices(names, weights)[0]][1]()

    def _change(self, name: str, *flows: Flow) -> None:
        if flows:
            self.apply(self.state.having(*flows))
            self.done[name] += 1

    def _any(self) -> Flow:
        return self._rng.choice([*self.state.flows.values()])

    def _remove(self) -> None:
        if len(self.state.removed) < 3:
            self.apply(self.state.without(self._any().asset))
            self.done["remove a workflow"] += 1

    def _add(self) -> None:
        if self.state.removed:
            self._change("add a workflow again", self._rng.choice([*self.state.removed.values()]))

    def _report_outside(self) -> None:
        """Report data of others as an asset whose workflow is removed; half of the time the workflow comes at once."""
        if not self.state.removed:
            return
        flow = self._rng.choice([*self.state.removed.values()])
        version = f"outside-{self._number}"
        self._insisting.call(lambda store: store.operations.report(flow.asset, version=version, key=version))
        self.done["report an asset of a removed workflow"] += 1
        if self._rng.random() < 0.5:
            self._change("add a workflow again", flow)

    def _edit_policy(self) -> None:
        flow = self._any()
        policies = (*POLICIES, COMPLETE) if len(flow.inputs) > 1 else POLICIES
        pool = self._rng.choice(["", "one"]) if self._rng.random() < 0.3 else flow.pool
        self._change("edit a policy", replace(flow, policy=self._rng.choice(policies), pool=pool))

    def _edit_parameter(self) -> None:
        flow = self._any()
        self._change("edit a parameter", replace(flow, salt=self._rng.choice([flow.salt + 1, max(0, flow.salt - 1)])))

    def _edit_inputs(self) -> None:
        """Give a workflow other inputs: any assets before its own in the fixed order, or its first ones again."""
        flow = self._any()
        names = [*SOURCES, *CONSUMES]
        upper = names[: names.index(flow.asset)]
        some = tuple(self._rng.sample(upper, min(len(upper), self._rng.randint(1, 3))))
        inputs = self._rng.choice([CONSUMES[flow.asset], some])
        policy = flow.policy if len(inputs) > 1 or flow.policy != COMPLETE else ""
        self._change("edit the inputs", replace(flow, inputs=inputs, policy=policy))

    def _rename(self) -> None:
        flow = self._any()
        self._change("rename a workflow", replace(flow, slug=f"{flow.asset}-r{self._number}"))

    def _edit_code(self) -> None:
        self.apply(replace(self.state, code=self.state.code + 1))
        self.done["edit the code"] += 1

    def _begin_quiet(self) -> None:
        """Begin quiet hours now or at the next full minute. An apply ends them some seconds later."""
        if self._quiet_ends is not None:
            return
        now = self._insisting.now()
        minute = now.replace(second=0, microsecond=0)
        begin = minute + MINUTE if minute + MINUTE - now < SOON else minute
        window = (begin, begin + 3 * MINUTE)
        flows = self._rng.sample([*self.state.flows.values()], min(len(self.state.flows), self._rng.randint(2, 4)))
        wait_s = max(0.0, (begin - now).total_seconds())
        self._quiet_ends = time.monotonic() + wait_s + self._rng.uniform(*QUIET_S)
        self._change("begin quiet hours", *(replace(one, quiet=window) for one in flows))

    def _quiet(self) -> list[Flow]:
        """Return the workflows with quiet hours; those that are removed forget them too."""
        removed = {asset: replace(one, quiet=None) for asset, one in self.state.removed.items()}
        self.state = replace(self.state, removed=removed)
        return [one for one in self.state.flows.values() if one.quiet]
