"""Reports assets to Dagster: one name a line on the standard input, answered by `ok` once it is stored.

A process that stays, as a service that reports would: what is measured is not the start of Python.
"""

import sys

import dagster as dg


def main() -> None:
    """Until the input ends."""
    instance = dg.DagsterInstance.get()
    print("ready", flush=True)
    for line in sys.stdin:
        for name in line.split():
            instance.report_runless_asset_event(dg.AssetMaterialization(name))
        print("ok", flush=True)


main()
