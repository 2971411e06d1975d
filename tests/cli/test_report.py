"""`freshline report --together`: several sources as one generation (docs/semantics.md#R4.7)."""

from __future__ import annotations

import json

import pytest

from freshline.store.store import Store
from tests.cli.conftest import Freshline

REPORTS = [
    {"assetId": "shop.raw", "dataVersion": "v2", "key": "k", "sequence": 3},
    {"assetId": "shop.more", "payload": {"rows": 2}},
]


@pytest.fixture
def two(freshline: Freshline) -> Freshline:
    """Return the command line of a project with a second source."""
    (freshline.project / "sources" / "more.yaml").write_text("assetId: shop.more\n")
    freshline("apply", "--yes")
    return freshline


def test_sources_are_reported_together(two: Freshline, store: Store) -> None:
    """With versions, a key and payloads; the answer names each source, and that they belong together."""
    words = (
        "report",
        "--together",
        "shop.raw=v1",
        "shop.more",
        "--key",
        "k",
        "--payload",
        '{"shop.more": {"rows": 3}}',
    )
    said = two(*words).stderr
    assert "shop.raw version 1 (v1) is reported" in said
    assert "shop.more version 1 (seq:1) is reported" in said
    assert "2 sources were reported together" in said
    assert store.reader.snapshots("shop.more", 1)[0]["payload"] == {"rows": 3}
    again = two(*words).stderr
    assert again.count("was reported before with this key; nothing was done") == 2
    assert "together" not in again


def test_sources_are_reported_from_a_file(two: Freshline) -> None:
    """It is the body of `POST /reports`."""
    file = two.project / "reports.json"
    file.write_text(json.dumps({"reports": REPORTS}))
    found = two.json("report", "--together", "--file", str(file))
    assert [(one["assetId"], one["dataVersion"]) for one in found["reports"]] == [
        ("shop.more", "seq:1"),
        ("shop.raw", "v2"),
    ]
    assert found["groupId"] is not None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["shop.raw", "shop.more"], "2 sources are named: shop.raw, shop.more"),
        ([], "no source is named"),
        (["--file", "FILE", "shop.raw"], "--file needs --together"),
        (["--together", "shop.raw=v1"], "1 source cannot be reported together; allowed are 2 to 100"),
        (["--together"], "0 sources cannot be reported together"),
        (["--together", "shop.raw=", "shop.more"], "'shop.raw=' is not ASSET or ASSET=VERSION"),
        (["--together", "shop.raw", "shop.more", "--data-version", "v"], "--data-version and --sequence are about one"),
        (["--together", "shop.raw", "shop.more", "--payload", "[]"], "--payload is an object of payloads by source"),
        (["--together", "shop.raw", "shop.more", "--payload", '{"shop.mor": 1}'], "names 'shop.mor', which is not rep"),
        (["--together", "shop.raw", "--file", "FILE"], "the file names everything"),
    ],
)
def test_arguments_that_do_not_fit(two: Freshline, words: list[str], error: str) -> None:
    """Nothing is guessed, and nothing is stored."""
    file = two.project / "reports.json"
    file.write_text(json.dumps({"reports": REPORTS}))
    given = [str(file) if one == "FILE" else one for one in words]
    assert error in " ".join(two("report", *given, code=2).stderr.split())
    assert two.json("events", "--type", "asset.produced") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"reports": [\n{]}', "reports.json:2: this is not JSON"),
        ("[]", "this is not an object with a list 'reports' alone"),
        ('{"reports": {}}', "this is not an object with a list 'reports' alone"),
        ('{"reports": [1, 2]}', "reports[0]: this is not an object"),
        ('{"reports": [{"assetId": "a", "dataversion": "v"}]}', "reports[0]: unknown field 'dataversion'; allowed are"),
        (
            '{"reports": [{"assetId": "a", "sequence": true}]}',
            "reports[0]: sequence is True; it must be a whole",
        ),
        ('{"reports": [{"assetId": "a", "sequence": -1}]}', "reports[0]: sequence is -1; it must be a whole"),
        ('{"reports": [{"assetId": "a", "key": ""}]}', "reports[0]: key is ''; it must be a text"),
        ('{"reports": [{"dataVersion": "v"}]}', "reports[0]: assetId is missing"),
    ],
)
def test_files_that_cannot_be_read(two: Freshline, text: str, error: str) -> None:
    """The error names the file, the place and what is allowed."""
    file = two.project / "reports.json"
    file.write_text(text)
    assert error in " ".join(two("report", "--together", "--file", str(file), code=2).stderr.split())


def test_partitions_of_one_source_are_named_each(freshline: Freshline) -> None:
    """Each line names the partition that it is about."""
    days = "assetId: shop.days\npartitioning: {time: day, start: 2025-12-01}\n"
    (freshline.project / "sources" / "days.yaml").write_text(days)
    freshline("apply", "--yes")
    reports = [
        {"assetId": "shop.days", "partitionKey": key, "dataVersion": f"of {key}"}
        for key in ("2025-12-02", "2025-12-01")
    ]
    (freshline.project / "reports.json").write_text(json.dumps({"reports": reports}))
    said = freshline("report", "--together", "--file", str(freshline.project / "reports.json")).stderr
    for key in ("2025-12-01", "2025-12-02"):
        assert f"shop.days@{key} version 1 (of {key}) is reported" in said
