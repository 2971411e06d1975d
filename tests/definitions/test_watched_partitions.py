"""The watch of a source with partitions: where the key of a file is in its path (docs/partitions.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.definitions.projects import loaded, mistakes

DAY = "{time: day, start: 2024-01-01}"
SOURCE = "assetId: orders\nformat: json\n{}\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            f"path: data/{{partitionKey}}\nwatch: {{files: data/*.json}}\npartitioning: {DAY}",
            (
                "4: asset 'orders': 'files' has no {partitionKey}, so that a file does not say to which partition it "
                "belongs; write {partitionKey} where the key is, as in drop/dt={partitionKey}/*.csv"
            ),
        ),
        (
            f"path: data/{{partitionKey}}\nwatch: {{files: 'data/{{partitionkey}}'}}\npartitioning: {DAY}",
            (
                "4: asset 'orders': 'files' has no {partitionKey}, so that a file does not say to which partition it "
                "belongs; did you mean '{partitionKey}'?"
            ),
        ),
        (
            f"path: data/{{partitionKey}}\nwatch: {{delta: data}}\npartitioning: {DAY}",
            (
                "4: asset 'orders': 'watch' with 'delta' is not possible with 'partitioning': it does not say which "
                "partition has changed; watch 'files' whose path has {partitionKey}, or remove it, and report the "
                "partitions"
            ),
        ),
        (
            "path: data\nwatch: {files: 'data/{partitionKey}.json'}",
            "4: asset 'orders': 'files' has {partitionKey}, and the source has no partitions; add 'partitioning'",
        ),
    ],
)
def test_a_watch_says_which_partition_has_changed(tmp_path: Path, fields: str, message: str) -> None:
    """A watch of a source with partitions has the key, and no other has one."""
    found = mistakes(tmp_path, {"sources/orders.yaml": SOURCE.format(fields)})
    assert message in [one.removeprefix("sources/orders.yaml:") for one in found]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "data/{partitionKey}/{partitionKey}.json",
            (
                "contains {partitionKey} more than once; write it once: the key of several dimensions is one name, as"
                " in 2024-01-31%7Ceu"
            ),
        ),
        (
            "data/**/{partitionKey}/**",
            (
                "has ** before and after {partitionKey}, so that it is not clear which directory is the key; keep one "
                "of them"
            ),
        ),
        (
            "data/{partitionKey}-*.json",
            (
                "has * and {partitionKey} in one name, '{partitionKey}-*.json', so that it is not clear where the key "
                "ends; put the key into the name of a directory, as in {partitionKey}/*.csv, or write the rest of the "
                "name"
            ),
        ),
        (
            "data/[{partitionKey}]/a.json",
            "has {partitionKey} in brackets, which match one character; write it outside of them",
        ),
        (
            "s3://{partitionKey}/a.json",
            "has {partitionKey} in the name of a bucket or host; write it in the path below",
        ),
    ],
)
def test_watched_paths_whose_key_is_not_clear(tmp_path: Path, pattern: str, message: str) -> None:
    """The key of a file is exactly one part of its path; a pattern that leaves a choice is refused at its line."""
    fields = f"path: data/{{partitionKey}}\npartitioning: {DAY}\nwatch:\n  every: 1m\n  files: '{pattern}'"
    [found] = mistakes(tmp_path, {"sources/orders.yaml": SOURCE.format(fields)})
    assert found == f"sources/orders.yaml:7: asset 'orders': 'files' is '{pattern}' and {message}"


@pytest.mark.parametrize(
    "pattern", ["data/dt={partitionKey}/*.json", "data/{partitionKey}.json", "**/{partitionKey}/x"]
)
def test_watched_paths_with_a_key(tmp_path: Path, pattern: str) -> None:
    """The key may be anywhere in the path of a watched source with partitions."""
    fields = f"path: data/{{partitionKey}}\nallow: [.]\npartitioning: {DAY}\nwatch: {{files: '{pattern}'}}"
    assert loaded(tmp_path, {"sources/orders.yaml": SOURCE.format(fields)}).warnings == ()
