"""Files of a source with partitions: those of each key are a version of its partition, and of no other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshline import failpoints
from freshline.model.file_patterns import parse
from freshline.services import file_notifications
from freshline.services.watcher import Watcher, look_without_report
from tests.scenarios.test_partitions import divided
from tests.store_harness import Lab
from tests.waiting import wait_until
from tests.watching.harness import SOURCE, Watching, watching

HOURS = {"time": "hour", "start": "2026-01-01"}
DAYS = {"time": "day", "start": "2026-01-01"}
FILES = {"files": "drop/dt={partitionKey}/*.csv", "every": "1h"}
DAILY = divided("daily", {SOURCE: {"require": "any"}}, DAYS)


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Watching]:
    """Yield a project with a watched directory."""
    with watching(database_url, tmp_path) as found:
        yield found


def apply(place: Watching, partitioning: dict[str, Any], watch: dict[str, Any] | None = None, **more: Any) -> None:
    """Apply a watched source with partitions, and what is computed of its days if it has times."""
    source = {"assetId": SOURCE, "watch": watch or FILES, "partitioning": partitioning, **more}
    place.lab.apply(*([DAILY] if partitioning in (HOURS, DAYS) else []), sources=(source,), root=place.root)


def versions(lab: Lab) -> dict[str, str]:
    """Return the current version of each partition."""
    rows = lab.rows("SELECT partition_key, data_version FROM heads WHERE asset_id = %s", SOURCE)
    return {row["partition_key"]: row["data_version"] for row in rows}


def reports(lab: Lab) -> list[str]:
    """Return the partitions that were reported, in order."""
    rows = lab.rows(
        "SELECT data ->> 'partitionKey' AS key FROM events WHERE type = 'asset.produced' AND subject = %s"
        " ORDER BY position",
        SOURCE,
    )
    return [row["key"] for row in rows]


def ran(lab: Lab) -> list[str]:
    """Execute what is due; return the partitions that ran, in order."""
    before = len(lab.runs("daily"))
    lab.work()
    return sorted(run["partition_key"] for run in lab.runs("daily")[before:])


def later(place: Watching) -> dict[str, Any]:
    """Look again when the next look is due."""
    return dict(place.look(hours=2))


def test_exactly_the_partitions_whose_files_appear_run(place: Watching) -> None:
    """Hours arrive by a watcher, and their days run. A late file of an old hour runs its day, and nothing else."""
    apply(place, HOURS)
    for hour in ("2026-01-02T00", "2026-01-02T01", "2026-01-03T00"):
        place.write(f"dt={hour}/a.csv")
    row = later(place)
    named = "2026-01-02T00, 2026-01-02T01, 2026-01-03T00"
    assert row["summary"] == f"3 files of 3 partitions match; 3 have a new version: {named}."
    assert row["position"]["last"] == named.split(", ")
    assert ran(place.lab) == ["2026-01-02", "2026-01-03"]
    assert later(place)["summary"] == "3 files of 3 partitions match; none has a new version."
    assert ran(place.lab) == []
    before = versions(place.lab)
    place.write("dt=2026-01-02T00/late.csv")
    later(place)
    after = versions(place.lab)
    assert [key for key in after if after[key] != before[key]] == ["2026-01-02T00"]
    assert ran(place.lab) == ["2026-01-02"]
    assert len(reports(place.lab)) == 4
    [last] = place.lab.rows(
        "SELECT payload FROM snapshots WHERE asset_id = %s ORDER BY produced_at DESC LIMIT 1", SOURCE
    )
    assert last["payload"] == {"files": 2, "bytes": 10}


def test_what_happens_to_the_files_of_a_key(place: Watching) -> None:
    """A changed, renamed or removed file is a new version of its partition. One without files keeps its version."""
    apply(place, DAYS)
    for name in ("dt=2026-01-02/a.csv", "dt=2026-01-02/b.csv", "dt=2026-01-03/a.csv"):
        place.write(name)
    later(place)
    first = versions(place.lab)
    place.write("dt=2026-01-02/a.csv", "id\n1\n2\n")
    later(place)
    (place.drop / "dt=2026-01-02/b.csv").rename(place.drop / "dt=2026-01-02/c.csv")
    later(place)
    (place.drop / "dt=2026-01-02/c.csv").unlink()
    later(place)
    assert reports(place.lab)[2:] == ["2026-01-02"] * 3
    (place.drop / "dt=2026-01-03/a.csv").rename(place.root / "kept.csv")
    row = later(place)
    assert row["summary"] == (
        "1 file of 1 partition matches; none has a new version; "
        "1 partition without files keeps its version: 2026-01-03."
    )
    (place.root / "kept.csv").rename(place.drop / "dt=2026-01-03/a.csv")
    later(place)
    assert len(reports(place.lab)) == 5, "the same files are the same version"
    assert versions(place.lab)["2026-01-03"] == first["2026-01-03"]


def test_a_path_without_a_key_of_the_source_is_a_conflict(place: Watching) -> None:
    """It is named by the watch; files of other keys go on. It is looked at again when the partitions change."""
    apply(place, DAYS)
    for part in ("31.1.", "2025-12-31", "2026-01-02", "2026-02-01", "__HIVE_DEFAULT_PARTITION__", "2026-%1"):
        place.write(f"dt={part}/a.csv")
    place.write("dt=31.1./b.csv")
    row = later(place)
    assert row["summary"].endswith("1 has a new version: 2026-01-02; 6 belong to no partition.")
    conflicts = {one["subject"]: one["message"] for one in row["conflicts"]}
    assert list(conflicts) == sorted(conflicts)
    assert conflicts["drop/dt=31.1./a.csv"] == (
        "partition key '31.1.' is not a day; allowed are keys such as 2024-01-31 (2 files of this key)"
    )
    assert conflicts["drop/dt=2025-12-31/a.csv"] == (
        "partition key '2025-12-31' is before the first; allowed are 2026-01-01 and later"
    )
    assert conflicts["drop/dt=2026-02-01/a.csv"].startswith("partition '2026-02-01' has not begun: ")
    assert conflicts["drop/dt=2026-%1/a.csv"].startswith("'2026-%1' is not a percent-encoded partition key; ")
    assert [one["subject"] for one in later(place)["conflicts"]] == list(conflicts), "every look names them"
    assert reports(place.lab) == ["2026-01-02"]
    apply(place, {**DAYS, "start": "2025-12-01"})
    assert place.row()["position"] == row["position"], "what was seen is kept"
    assert len(place.look(milliseconds=1)["conflicts"]) == 4, "it is looked at again at once"
    assert reports(place.lab) == ["2026-01-02", "2025-12-31"]
    assert len(place.look(days=40)["conflicts"]) == 3, "a day that has begun"
    assert reports(place.lab)[2:] == ["2026-02-01"]


def test_keys_are_decoded_as_in_other_paths(place: Watching) -> None:
    """Several dimensions are one name, and characters that no path may have are percent-encoded."""
    dimensions = {"day": DAYS, "region": {"keys": ["eu", "us/ca"]}}
    apply(place, {"dimensions": dimensions}, {"files": "drop/{partitionKey}.csv"})
    for part in ("2026-01-02%7Ceu", "2026-01-02%7cus%2Fca", "2026-01-02|eu2", "2026-01-02"):
        place.write(f"{part}.csv")
    row = later(place)
    assert sorted(reports(place.lab)) == ["2026-01-02|eu", "2026-01-02|us/ca"]
    assert [one["subject"] for one in row["conflicts"]] == ["drop/2026-01-02.csv", "drop/2026-01-02|eu2.csv"]


def test_a_name_that_would_be_read_elsewhere_is_a_conflict(place: Watching) -> None:
    """If the data is at the watched place, its name is the one that a report leads to. Elsewhere it does not matter."""
    apply(place, {"dynamic": {}}, format="csv", path="drop/dt={partitionKey}")
    place.write("dt=us%2Fca/a.csv")
    place.write("dt=eu west/a.csv")
    row = later(place)
    assert reports(place.lab) == ["us/ca"]
    [conflict] = row["conflicts"]
    assert conflict["message"] == (
        "the data of partition 'eu west' is read where its name is 'eu%20west', and not 'eu west'; rename it"
    )
    [head] = place.lab.rows("SELECT location FROM snapshots WHERE asset_id = %s", SOURCE)
    assert head["location"]["path"] == str(place.drop / "dt=us%2Fca")
    apply(place, {"dynamic": {}}, format="csv", path="data/{partitionKey}", allow=["drop", "data"])
    later(place)
    assert sorted(reports(place.lab)) == ["eu west", "us/ca"]


def test_a_name_that_is_no_text_is_a_conflict(place: Watching) -> None:
    """A look with a name that is not UTF-8 can be stored."""
    apply(place, {"dynamic": {}})
    directory = os.fsencode(place.drop) + b"/dt=\xff"
    os.mkdir(directory)  # noqa: PTH102 - not a text
    with open(directory + b"/a.csv", "wb") as file:  # noqa: PTH123
        file.write(b"id\n1\n")
    place.write("dt=b/a.csv")
    row = later(place)
    assert (row["error"], reports(place.lab), len(row["conflicts"])) == (None, ["b"], 1)


def test_dynamic_keys_beyond_the_limit_are_conflicts(place: Watching) -> None:
    """One too many would be refused. The others are reported, and it is too when there is room."""
    apply(place, {"dynamic": {"limit": 2}})
    place.write("dt=a/a.csv")
    place.lab.report(SOURCE, "1", partition_key="by hand")
    place.write("dt=b/a.csv")
    row = later(place)
    assert reports(place.lab) == ["by hand", "a"]
    [conflict] = row["conflicts"]
    assert conflict["subject"] == "drop/dt=b/a.csv"
    assert conflict["message"] == "partition key 'b' would be one more than the limit of 2 keys"
    place.write("dt=a/b.csv")
    later(place)
    apply(place, {"dynamic": {"limit": 3}})
    later(place)
    assert reports(place.lab) == ["by hand", "a", "a", "b"]


def test_a_burst_is_reported_in_parts(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many partitions are one transaction; the next look follows at once, the oldest files first."""
    monkeypatch.setattr("freshline.watching.partition_files.MOST_PARTITIONS", 4)
    apply(place, HOURS)
    for hour in range(10):
        os.utime(place.write(f"dt=2026-01-02T{hour:02}/a.csv"), (9 - hour, 9 - hour))
    later(place)
    assert reports(place.lab) == [f"2026-01-02T{hour:02}" for hour in reversed(range(10))]


def test_existing_files_can_be_ignored(place: Watching) -> None:
    """With `existing: ignore` the partitions of the first look are not reported, until their files change."""
    place.write("dt=2026-01-02/a.csv")
    place.write("dt=2026-01-03/a.csv")
    apply(place, DAYS, {**FILES, "existing": "ignore"})
    assert later(place)["summary"] == "2 files of 2 partitions existed at the first look and are ignored."
    place.write("dt=2026-01-03/b.csv")
    later(place)
    assert reports(place.lab) == ["2026-01-03"]


def test_a_partition_waits_until_its_files_are_complete(place: Watching) -> None:
    """A file that is being written, or a marker that is missing, holds its own partition and no other."""
    apply(place, DAYS, {**FILES, "marker": "_SUCCESS"})
    place.write("dt=2026-01-02/a.csv")
    place.write("dt=2026-01-03/a.csv")
    place.write("dt=2026-01-03/_SUCCESS", "")
    row = later(place)
    assert row["summary"].endswith("1 has a new version: 2026-01-03; 1 waits for _SUCCESS in its directory.")
    assert reports(place.lab) == ["2026-01-03"]
    apply(place, DAYS)
    with (place.drop / "dt=2026-01-04.csv").open("w"), place.write("dt=2026-01-02/b.csv").open("a") as file:
        file.write("2\n")
        file.flush()
        assert later(place)["summary"].endswith("none has a new version; 1 is not complete yet.")
    later(place)
    assert reports(place.lab) == ["2026-01-03", "2026-01-02"]


def test_each_partition_settles_by_itself(place: Watching) -> None:
    """With `settle` a partition whose files change again and again holds no other."""
    apply(place, DAYS, {**FILES, "settle": "150ms"})
    place.write("dt=2026-01-02/a.csv")
    place.write("dt=2026-01-03/a.csv")
    assert later(place)["summary"].endswith("none has a new version; 2 are not complete yet.")

    def changing() -> bool:
        place.write(f"dt=2026-01-03/{len(place.row()['summary'])}-{place.row()['claim']}.csv")
        later(place)
        return reports(place.lab) == ["2026-01-02"]

    wait_until(changing)
    wait_until(lambda: later(place) and len(reports(place.lab)) == 2)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_version_is_reported_once_whenever_the_process_dies(place: Watching, moment: str) -> None:
    """The report and the digest of the partition are one transaction."""

    def crash() -> None:
        raise failpoints.FailpointError

    apply(place, DAYS)
    place.write("dt=2026-01-02/a.csv")
    with failpoints.armed(f"record_look:{moment}", crash), pytest.raises(failpoints.FailpointError):
        later(place)
    place.watcher.stop()
    place.watcher = Watcher(place.lab.store)
    assert list(versions(place.lab)) == (["2026-01-02"] if moment == "after" else [])
    place.write("dt=2026-01-03/a.csv")
    later(place)
    later(place)
    assert sorted(reports(place.lab)) == ["2026-01-02", "2026-01-03"]


def test_a_closed_file_is_reported_without_a_pause(place: Watching) -> None:
    """The kernel tells it, also in the directory of a key that is new."""
    place.write("dt=2026-01-02/a.csv")
    apply(place, DAYS)
    later(place)
    place.finish(place.watcher)
    place.write("dt=2026-01-03/a.csv")
    wait_until(lambda: place.watcher.run_once() or reports(place.lab) == ["2026-01-02", "2026-01-03"])
    place.write("dt=2026-01-02/b.csv")
    wait_until(lambda: place.watcher.run_once() or reports(place.lab)[2:] == ["2026-01-02"])


def test_files_are_found_where_the_kernel_tells_nothing(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling finds the same partitions, each once."""
    monkeypatch.setattr(file_notifications, "_open", lambda: None)
    apply(place, DAYS)
    later(place)
    place.write("dt=2026-01-02/a.csv")
    place.finish(place.watcher)
    assert reports(place.lab) == []
    later(place)
    place.write("dt=2026-01-03/a.csv")
    later(place)
    later(place)
    assert reports(place.lab) == ["2026-01-02", "2026-01-03"]


def test_other_partitions_begin_anew(place: Watching) -> None:
    """Keys of another calendar mean something else, also if their texts are equal. In another range they are kept."""
    place.write("dt=2026-01-02/a.csv")
    apply(place, DAYS)
    later(place)
    apply(place, {**DAYS, "end": "2026-01-04"})
    assert place.row()["position"] is not None
    claim = place.row()["claim"]
    apply(place, {**DAYS, "timezone": "Europe/Berlin"})
    assert (place.row()["position"], place.row()["claim"]) == (None, claim + 1)
    later(place)
    assert reports(place.lab) == ["2026-01-02"] * 2
    apply(place, {**DAYS, "timezone": "Europe/Berlin", "start": "2026-01-03"})
    row = later(place)
    assert (row["position"]["partitions"], len(row["conflicts"])) == ({}, 1)


def test_a_check_names_the_partitions_and_reports_nothing(place: Watching) -> None:
    """It is what `freshline watch check` shows."""
    apply(place, DAYS)
    place.write("dt=2026-01-02/a.csv")
    seen = look_without_report(place.lab.store, SOURCE)
    assert [one.partition_key for one in seen.found] == ["2026-01-02"]
    assert reports(place.lab) == []


@pytest.mark.parametrize(
    ("pattern", "path", "key"),
    [
        ("drop/dt={partitionKey}/*.csv", "dt=a/dt=b.csv", "a"),
        ("drop/dt={partitionKey}/**", "dt=a/dt=b/x.csv", "a"),
        ("drop/**/dt={partitionKey}/*.csv", "dt=a/dt=b/x.csv", "b"),
        ("drop/**/{partitionKey}.csv", "x/y/a.b.csv", "a.b"),
        ("drop/*/{partitionKey}_v?.csv", "x/a_v1_v2.csv", "a_v1"),
        ("drop/{partitionKey}", "a", "a"),
    ],
)
def test_the_key_is_one_part_of_the_path(pattern: str, path: str, key: str) -> None:
    """Whatever else the path has."""
    parsed = parse(pattern, "/project")
    below = path if str(parsed.base) == "/project/drop" else f"drop/{path}"
    assert parsed.matches(below)
    assert parsed.encoded_key(below) == key
