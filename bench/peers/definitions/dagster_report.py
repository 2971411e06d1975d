"""Reports assets to Dagster: one name a line on the standard input, answered by `ok` once it is stored.

It is a long-running process, like a service that reports, so the start of Python is not measured.
"""

import sys

import dagster as dg


def main() -> None:
    """Report until the input ends."""
    instance = dg.DagsterInstance.get()
    print("ready", flush=True)
    for line in sys.stdin:
        for name in line.split():
            instance.report_runless_asset_event(dg.AssetMaterialization(name))
        print("ok", flush=True)


main()
