"""What a simulated run has read of the columns of its inputs (docs/semantics.md#R1.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from freshline.model.state import Version
from freshline.simulation.records import Asset, Run


def versions_read(run: Run, reads: Mapping[str, str] | None, asset: Callable[[str], Asset]) -> Mapping[str, Version]:
    """Return the pins with the versions of the columns that the run has read. `reads`: the key of the set, by input."""
    if not reads:
        return run.pins
    found = {}
    for name, pin in run.pins.items():
        version = asset(name).columns.get(pin.sequence, {}).get(reads.get(name, ""))
        found[name] = replace(pin, columns={reads[name]: version}) if version else pin
    return found
