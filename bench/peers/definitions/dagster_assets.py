"""The graph as Dagster assets with declarative automation: `dagster-daemon run -f` of Dagster's environment loads it.

`PEERS_INTERVAL` empty: every 30 seconds and a process for each step, as after an installation. `PEERS_HANDLED`: an
update is dealt with once a run was requested after it, and not, as in `eager()`, also when any run ends after it.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from job import work

GRAPH = json.loads(Path(os.environ["PEERS_GRAPH"]).read_text(encoding="utf-8"))
INTERVAL = os.environ.get("PEERS_INTERVAL")
EAGER = dg.AutomationCondition.eager()
CONDITION = (
    EAGER.replace("handled", dg.AutomationCondition.newly_requested()) if os.environ.get("PEERS_HANDLED") else EAGER
)


def derived(name: str, inputs: Sequence[str]) -> dg.AssetsDefinition:
    """One asset that is made again when an input is updated."""

    @dg.asset(name=name, deps=inputs, automation_condition=CONDITION)
    def make() -> None:
        work(name)

    return make


defs = dg.Definitions(
    assets=[
        *(dg.AssetSpec(source) for source in GRAPH["sources"]),
        *(derived(name, inputs) for name, inputs in GRAPH["consumes"].items()),
    ],
    sensors=[
        dg.AutomationConditionSensorDefinition(
            "automation",
            target=dg.AssetSelection.all(),
            minimum_interval_seconds=int(INTERVAL) if INTERVAL else None,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )
    ],
    executor=dg.in_process_executor if INTERVAL else None,
)
