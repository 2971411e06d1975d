"""The demo's summary, on the real store."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tests.store_harness import laboratory, workflow

SUMMARY = Path(__file__).parents[2] / "examples" / "flights" / "demo_support" / "summary.py"


def _summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_summary", SUMMARY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo_summary"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_summary_counts_runs_failures_and_what_was_avoided(database_url: str) -> None:
    """An update that runs everything, one with a failure and a retry, and one that is cut off early."""
    summary = _summary()
    with laboratory(database_url) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"))
        updates = []
        for version in ("1", "2", "3"):
            lab.advance(minutes=10)
            updates.append(summary.Update(version, ("a",), lab.now))
            lab.report("a", version)
            if version == "2":
                lab.settle()
                lab.fail(lab.start())
                lab.advance(minutes=5)
            lab.work(b=f"b{min(int(version), 2)}")
        first, second, third = summary.effects(lab.store.reader, updates)
    assert (first.succeeded, first.failed, first.avoided, first.identical) == (2, 0, 0, 0)
    assert (second.succeeded, second.failed, second.retried) == (2, 1, 1)
    assert (third.succeeded, third.avoided, third.identical) == (1, 1, 1)
