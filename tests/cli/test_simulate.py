"""`freshline simulate`: recorded and invented loads under the current and a proposed policy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from freshline.definitions.loading import document
from freshline.simulation.load_partitions import RequestedBackfill, SingleReport
from freshline.simulation.workload import Load, SourceLoad, WorkflowLoad
from tests.cli.conftest import Freshline
from tests.docs.pages import Page, code, codes
from tests.store_harness import Lab, laboratory, workflow

PAGE = Page("docs/simulate.md")
LOAD = """
sources:
  shop.raw: { every: 10m }
workflows:
  "*": { duration: 60s }
"""


@pytest.fixture
def load(freshline: Freshline) -> Path:
    """Write a load of one report every ten minutes."""
    path = freshline.project / "load.yaml"
    path.write_text(LOAD)
    return path


@pytest.fixture
def proposed(freshline: Freshline, tmp_path: Path) -> Path:
    """Copy the project, with a first workflow that runs at most every half hour."""
    root = tmp_path / "proposed"
    shutil.copytree(freshline.project, root)
    file = root / "workflows" / "w0.yaml"
    file.write_text(file.read_text().replace("onUpstreamUpdate: true", "onUpstreamUpdate: true, minInterval: 30m"))
    return root


def test_a_regular_load_is_counted_exactly(freshline: Freshline, load: Path) -> None:
    """143 reports in a day, two runs each, one minute after the other."""
    current = freshline.json("simulate", "--load", str(load), "--since", "1d")["current"]
    assert (current["runs"], current["failed"], current["mixed"], current["breaches"]) == (2 * 143, 0, 0, 0)
    assert current["slotHours"] == pytest.approx(2 * 143 / 60, abs=0.01)
    assert current["assets"]["shop.clean"]["lagSeconds"] == {"p50": 60, "p95": 60, "max": 60}
    assert current["assets"]["shop.daily"]["lagSeconds"] == {"p50": 120, "p95": 120, "max": 120}
    assert current["workflows"] == {"make-clean": {"runs": 143}, "make-daily": {"runs": 143}}


def test_the_same_is_told_over_time(freshline: Freshline, load: Path) -> None:
    """A day in quarters of an hour: three reports in two of them, each with two runs, one or two minutes late."""
    current = freshline.json("simulate", "--load", str(load), "--since", "1d")["current"]
    series = current["series"]
    assert series["bucketSeconds"] == 900
    assert series["runs"] == [2] + [2, 4] * 47 + [2]
    assert sum(series["runs"]) == current["runs"]
    assert sum(series["slotHours"]) == pytest.approx(current["slotHours"], abs=0.01)
    assert [(one["p95"], one["max"]) for one in series["lagSeconds"]] == [(120, 120)] * 96


def test_what_has_not_arrived_at_the_end_counts(freshline: Freshline, load: Path, tmp_path: Path) -> None:
    """A policy that never runs is not the fastest one: its changes have the lag until the end."""
    patient = tmp_path / "patient"
    shutil.copytree(freshline.project, patient)
    file = patient / "workflows" / "w1.yaml"
    file.write_text(file.read_text().replace("onUpstreamUpdate: true", "onUpstreamUpdate: true, debounce: 2d"))
    words = ("simulate", "--load", str(load), "--since", "1d", "--policy", str(patient))
    answer = freshline.json(*words)
    assert (answer["current"]["pending"], answer["proposed"]["pending"]) == (0, 143)
    day = answer["proposed"]["assets"]["shop.daily"]["lagSeconds"]
    assert day["max"] == pytest.approx(86_400 - 600)
    assert answer["proposed"]["lagSeconds"]["max"] > answer["current"]["lagSeconds"]["max"]
    late = [one["max"] for one in answer["proposed"]["series"]["lagSeconds"]]
    assert (late[0], late[48]) == (86_400 - 600, 86_400 / 2)  # where the changes happened, and not all at the end
    assert "pending at the end" in freshline(*words).stdout


def test_two_policies_are_compared(freshline: Freshline, load: Path, proposed: Path) -> None:
    """Fewer runs, more lag and a new kind of hold, as figures and as a table."""
    words = ("simulate", "--load", str(load), "--since", "1d", "--policy", str(proposed))
    answer = freshline.json(*words)
    assert answer["proposed"]["runs"] < answer["current"]["runs"] / 2
    assert answer["difference"]["runs"] == answer["proposed"]["runs"] - answer["current"]["runs"]
    assert answer["difference"]["lag p95"] > 600
    assert answer["difference"]["held: min-interval"] == answer["proposed"]["holds"]["min-interval"] > 0
    table = freshline(*words).stdout
    assert "CURRENT" in table
    assert "DIFFERENCE" in table
    assert "held: min-interval" in table
    assert "shop.daily" in table


def test_the_same_seed_gives_the_same_answer(freshline: Freshline, load: Path) -> None:
    """Luck comes from the seed alone."""
    load.write_text(
        'sources: { "*": { every: 10m, random: true } }\nworkflows: { "*": { spread: 1, failureRate: 0.2 } }\n'
    )
    one, again, other = (
        freshline.json("simulate", "--load", str(load), "--since", "2d", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert one == again
    assert one["current"] != other["current"]
    assert one["current"]["failed"] > 0


def test_few_slots_make_lag(freshline: Freshline, load: Path) -> None:
    """A queue in front of one slot shows as lag."""
    load.write_text('sources: { "*": { every: 10m } }\nworkflows: { "*": { duration: 8m } }\n')
    narrow, wide = (
        freshline.json("simulate", "--load", str(load), "--since", "1d", "--slots", slots)["current"]
        for slots in ("1", "2")
    )
    assert narrow["lagSeconds"]["p95"] > wide["lagSeconds"]["p95"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sources: { shop.row: { every: 1h } }", r"load.yaml:1: 'shop.row' fits none.* did you mean 'shop.raw'"),
        ("sources:\n  shop.raw: { evry: 1h }", r"load.yaml:2: .*'evry'.*did you mean 'every'"),
        ("sources: { shop.raw: { every: soon } }", r"'soon' is not a duration"),
        ("workflows: { '*': { failureRate: 2 } }", r"failureRate"),
        ("- 1", r"is not a load"),
        ("workflows: {}", r"no source changes"),
    ],
)  # fmt: skip
def test_mistakes_in_a_load_are_told_with_their_line(freshline: Freshline, load: Path, text: str, told: str) -> None:
    """What is wrong, what is allowed, and where."""
    load.write_text(text)
    result = freshline("simulate", "--load", str(load), code=2 if "no source" in told else 1)
    assert re.search(told, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def past(database_url: str, freshline: Freshline) -> Iterator[Lab]:
    """Insert ten reports of `a`, an hour apart; `b` takes 90 s, and `c` after it 30 s."""
    assert freshline.project
    with laboratory(database_url, now=datetime.now(UTC) - timedelta(days=1)) as lab:
        lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("idle", "a", auto=None))
        for number in range(10):
            lab.report("a", f"v{number}")
            for slug, seconds in (("b", 90), ("c", 30)):
                lab.settle()
                run = lab.start()
                assert run.slug == slug
                lab.advance(seconds=seconds)
                lab.finish(run)
            lab.advance(hours=1)
        yield lab


def test_the_past_is_replayed(past: Lab, freshline: Freshline) -> None:
    """As many runs as there were, as long as they were; and nothing is written."""
    before = past.everything()
    answer = freshline.json("simulate", "--since", "2d")
    assert answer["reports"] == 10
    current = answer["current"]
    assert current["workflows"] == {"b": {"runs": 10}, "c": {"runs": 10}}
    assert current["assets"]["b"]["lagSeconds"]["max"] == pytest.approx(90, abs=0.1)
    assert current["assets"]["c"]["lagSeconds"]["max"] == pytest.approx(120, abs=0.1)
    assert past.everything() == before
    assert "1 workflow has no recorded run" in freshline("simulate", "--since", "2d").stderr


def test_days_before_the_project_existed_are_not_played(past: Lab, freshline: Freshline) -> None:
    """They would be days of expiries of assets that nobody had; a note says what was played instead."""
    applied = past.one("SELECT min(created_at) FROM workflows")
    answer = freshline.json("simulate", "--since", "90d")
    assert datetime.fromisoformat(answer["start"]) == applied
    assert answer["current"]["runs"] == freshline.json("simulate", "--since", "60d")["current"]["runs"]
    assert "the first workflow was applied" in freshline("simulate", "--since", "90d").stderr
    assert "the first workflow was applied" not in freshline("simulate", "--since", "1h", code=2).stderr


def test_recorded_failures_happen_again(past: Lab, freshline: Freshline) -> None:
    """A workflow that failed half of its runs does so in the simulation."""
    past.rows("UPDATE runs SET status = 'failed', error = '{}' WHERE workflow_id = 1 AND id IN (SELECT id FROM runs"
              " WHERE workflow_id = 1 ORDER BY id LIMIT 5) RETURNING id")  # fmt: skip
    assert freshline.json("simulate", "--since", "2d")["current"]["failed"] > 0


def test_a_proposed_policy_on_the_past(past: Lab, freshline: Freshline, tmp_path: Path) -> None:
    """The reports go through the definitions of another project, which may not know all of them."""
    assert past
    root = tmp_path / "other"
    (root / "workflows").mkdir(parents=True)
    (root / "freshline.toml").touch()
    text = json.dumps(workflow("b", "a z", auto={"onUpstreamUpdate": True, "minIntervalMs": 7_200_000}))
    (root / "workflows" / "b.json").write_text(text.replace("jobs:work", "json:dumps"))
    answer = freshline.json("simulate", "--since", "2d", "--policy", str(root))
    assert answer["proposed"]["workflows"] == {"b": {"runs": 6}}
    assert answer["difference"]["runs"] == -14


def test_nothing_recorded_is_said(freshline: Freshline) -> None:
    """Neither an empty database nor an empty past is an empty table."""
    assert "nothing is applied yet" in freshline("simulate", code=2).stderr
    freshline("apply", "--yes")
    assert "nothing was reported in the last 12 h" in freshline("simulate", "--since", "12h", code=2).stderr
    assert "is not a duration" in freshline("simulate", "--since", "a week", code=2).stderr


def test_the_load_on_the_page_works(freshline: Freshline, load: Path) -> None:
    """The example is taken as it is, up to the sources that this project has not."""
    text = PAGE.blocks("yaml")[0]
    load.write_text("".join(line for line in text.splitlines(keepends=True) if "clicks" not in line))
    assert freshline.json("simulate", "--load", str(load), "--since", "1d")["current"]["runs"] > 100
    assert Load.model_validate(document.parse(text, "page")[0].data).sources["clicks.*"].change_rate == 0.8


SALES = """
slug: {slug}
steps:
  - id: one
    job: {{ kind: python, entrypoint: "jobs:clean" }}
    consumes: [ {{ assetId: {read} }} ]
    produces:
      - assetId: {slug}
        partitioning: {{ time: {time}, start: 2025-01-01 }}
        autoMaterialize: {{ onUpstreamUpdate: true }}
"""


@pytest.fixture
def sales(freshline: Freshline) -> Path:
    """Add hours, their days and their months to the project. Return the load of the page."""
    (freshline.project / "sources").mkdir(exist_ok=True)
    source = "assetId: orders.raw\npartitioning: { time: hour, start: 2025-01-01 }\n"
    (freshline.project / "sources" / "orders.yaml").write_text(source)
    for slug, read, grain in (("sales.daily", "orders.raw", "day"), ("sales.monthly", "sales.daily", "month")):
        text = SALES.format(slug=slug, read=read, time=grain).replace(
            f"slug: {slug}", f"slug: {slug.replace('.', '-')}"
        )
        (freshline.project / "workflows" / f"{slug}.yaml").write_text(text)
    path = freshline.project / "sales-load.yaml"
    path.write_text(PAGE.blocks("yaml")[1])
    return path


def test_the_late_data_and_the_backfill_on_the_page(freshline: Freshline, sales: Path) -> None:
    """One late day, one of two named hours, the days of the backfill, and those of the week; the months of all."""
    answer = freshline.json("simulate", "--load", str(sales), "--since", "7d")
    workflows = answer["current"]["workflows"]
    assert workflows["sales-daily"] == {"runs": 2 + 31 + 7, "partitions": 2 + 31 + 7}
    assert workflows["sales-monthly"]["partitions"] == 3
    assert answer["current"]["heldPartitions"] == 0
    assert answer["current"]["assets"]["sales.daily"]["lagSeconds"]["p50"] == 600
    series = answer["current"]["series"]
    assert sum(series["runs"]) == answer["current"]["runs"]
    assert max(one["max"] for one in series["lagSeconds"] if one) == answer["current"]["lagSeconds"]["max"]
    shown = freshline("simulate", "--load", str(sales), "--since", "7d").stdout
    assert "held partitions" in shown
    assert "40 runs of 40 partitions" in shown


def test_what_waits_for_an_approval_is_said(freshline: Freshline, sales: Path) -> None:
    """Three late days are more than the limit: they stay held, and the output says that nothing approves them."""
    calm = freshline("simulate", "--load", str(sales), "--since", "7d")
    file = freshline.project / "workflows" / "sales.daily.yaml"
    limit = "onUpstreamUpdate: true, partitions: { limit: 1 }"
    file.write_text(file.read_text().replace("onUpstreamUpdate: true", limit))
    late = "- { asset: orders.raw, at: 1d, keys: [2025-12-01T05, 2025-12-02T05, 2025-12-03T05] }"
    sales.write_text(f"reports:\n  {late}\n")
    held = freshline("simulate", "--load", str(sales), "--since", "2d")
    said = "a simulation approves nothing"
    assert (said in calm.stdout + calm.stderr, said in held.stdout + held.stderr) == (False, True)


def test_a_policy_with_partitions_is_compared(freshline: Freshline, sales: Path, tmp_path: Path) -> None:
    """Both projects are played with the same partitions."""
    other = tmp_path / "other"
    shutil.copytree(freshline.project, other)
    file = other / "workflows" / "sales.daily.yaml"
    file.write_text(file.read_text().replace("onUpstreamUpdate: true", "onUpstreamUpdate: true, enabled: false"))
    answer = freshline.json("simulate", "--load", str(sales), "--since", "2d", "--policy", str(other))
    assert answer["current"]["workflows"]["sales-daily"]["partitions"] == 2
    assert "sales-daily" not in answer["proposed"]["workflows"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("reports:\n  - { asset: orders.row, at: 1d }", r"sales-load.yaml:2: .*did you mean 'orders.raw'"),
        ("reports:\n  - { asset: orders.raw, at: 1d,\n      keys: [2025-06-01] }", r"sales-load.yaml:3: .*not an hour"),
        ("reports:\n  - { asset: orders.raw, at: 1d, kees: [x] }", r"sales-load.yaml:2: .*did you mean 'keys'"),
        ("backfills:\n  - { asset: sales.daily, at: 1d, form: 2025-06-01 }", r"sales-load.yaml:2: .*'from'"),
        ("backfills:\n  - { asset: sales.daily, at: 1d, only: some }", r"sales-load.yaml:2: .*only"),
        ("backfills:\n  - { asset: orders.raw, at: 1d }", r"sales-load.yaml:2: .*is a source"),
    ],
)  # fmt: skip
def test_mistakes_about_partitions_are_told_with_their_line(
    freshline: Freshline, sales: Path, text: str, told: str
) -> None:
    """What is wrong, what is allowed, and where."""
    sales.write_text(text)
    result = freshline("simulate", "--load", str(sales), code=1)
    assert re.search(told, result.stderr), result.stderr


def test_old_partitions_are_left_out_and_a_note_says_so(freshline: Freshline, sales: Path) -> None:
    """Minutes of a year are too many. What a backfill needs is among those that are played."""
    file = freshline.project / "sources" / "orders.yaml"
    file.write_text(file.read_text().replace("hour", "minute"))
    sales.write_text("sources: { orders.raw: { every: 6h } }\n")
    assert "those before 2025-12-2" in freshline("simulate", "--load", str(sales), "--since", "12h").stderr


def test_what_is_read_as_a_whole_is_bounded(freshline: Freshline, sales: Path) -> None:
    """Every run of a workflow that reads all hours costs as much as there are hours: a few weeks are enough."""
    text = SALES.format(slug="every", read="orders.raw", time="day")
    file = freshline.project / "workflows" / "every.yaml"
    file.write_text("".join(one for one in text.splitlines(keepends=True) if "partitioning" not in one))
    sales.write_text("sources: { orders.raw: { every: 1h } }\n")
    assert "those before 2025-10-1" in freshline("simulate", "--load", str(sales), "--since", "3h").stderr


def test_every_field_is_on_the_page() -> None:
    """The tables name the fields of the blocks."""
    titles = ("Generate a load", "Late data and backfills")
    shown = {code(row[0]) for title in titles for row in PAGE.table(title)}
    for model in (SourceLoad, WorkflowLoad, SingleReport, RequestedBackfill):
        fields = {name.removesuffix("Ms") for name in (field.alias or "" for field in model.model_fields.values())}
        assert fields <= shown | set(codes(PAGE.text))
