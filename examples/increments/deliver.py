"""The outside world of the example: `python deliver.py` lets the orders of one more day arrive, and reports them."""

import csv
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

FIRST = datetime(2026, 1, 1, 9, tzinfo=UTC)
CUSTOMERS = ("anna", "bert", "carl", "dora")


def orders(day: int) -> list[list[object]]:
    """Three orders of a day; the third is not paid."""
    numbers = range(3 * day - 2, 3 * day + 1)
    return [
        [
            number,
            CUSTOMERS[number % 4],
            f"{number}.50",
            number % 3 != 0,
            _text(FIRST + timedelta(days=day, hours=number)),
        ]
        for number in numbers
    ]


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def main() -> None:
    """Write the next file, whole or not at all, then say that there is something new."""
    directory = Path(__file__).parent / "arrived"
    directory.mkdir(parents=True, exist_ok=True)
    day = len(list(directory.glob("*.csv"))) + 1
    written = directory / f".day-{day:03}"  # Spark leaves hidden files alone
    with written.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "customer", "amount", "paid", "ordered"], *orders(day)])
    written.rename(directory / f"day-{day:03}.csv")
    freshline = Path(sys.executable).with_name("freshline")
    subprocess.run([freshline, "report", "orders.raw", "--version", f"day-{day}"], check=True)


if __name__ == "__main__":
    main()
