"""What a project says about partitions: what is accepted, and every mistake with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.partitions import from_json
from tests.definitions.projects import JOBS, loaded, mistakes

HEAD = "slug: sales\nsteps:\n  - id: daily\n    job: {kind: python, entrypoint: jobs:run}\n"
DAY = "{time: day, start: 2024-01-01}"
SOURCES = """\
- assetId: hours
  partitioning: {time: hour, start: 2024-01-01}
- assetId: days
  partitioning: {time: day, start: 2024-01-01}
- assetId: weeks
  partitioning: {time: week, start: 2024-01-01}
- assetId: regions
  partitioning: {keys: [eu, us]}
- assetId: both
  partitioning: {dimensions: {day: {time: day, start: 2024-01-01}, region: {keys: [eu, us]}}}
- assetId: whole
"""


def files(workflow: str, sources: str = SOURCES) -> dict[str, str]:
    """Return a project with one workflow."""
    return {**JOBS, "sources/all.yaml": sources, "workflows/sales.yaml": workflow}


def output(*fields: str) -> str:
    """Return a workflow with one output. Its fields begin in line 7."""
    return HEAD + "    produces:\n      - assetId: sales.daily\n" + "".join(f"        {field}\n" for field in fields)


def reader(consumes: str, partitioning: str = DAY) -> str:
    """Return a workflow that reads one asset. The input is in line 6."""
    produces = f"{{assetId: sales.daily, partitioning: {partitioning}}}" if partitioning else "{assetId: sales.daily}"
    return HEAD + f"    consumes:\n      - {consumes}\n    produces:\n      - {produces}\n"


@pytest.mark.parametrize(
    ("field", "message"),
    {
        "partitioning: {}": "a partitioning has one of time, keys, dynamic, dimensions; here: none",
        "partitioning: {time: day}": "partitions by day need 'start', the date of the first one, such as start: "
        "2024-01-01",
        "partitioning: {time: fortnight, start: 2024-01-01}": "'time' is \"fortnight\"; allowed are 'minute', 'hour', "
        "'day', 'week', 'month' or 'year'",
        "partitioning: {time: day, start: 2024-01-01, timezone: Europe/Berln}": "'Europe/Berln' is not a time zone; "
        "allowed are names such as Europe/Vienna; did you mean 'Europe/Berlin'?",
        "partitioning: {time: hour, start: 2024-01-01, timezone: Europe/Berlin}": "partitions of one hour are always "
        "in UTC, but timezone is 'Europe/Berlin'; allowed are time zones for day, week, month and year; remove "
        "timezone",
        "partitioning: {time: day, start: 2024-01-01, end: 2023-01-01}": "no day lies between start and end; the first "
        "one from start is 2024-01-01, and end is '2023-01-01'; allowed is 2024-01-02 or later, because end is "
        "exclusive",
        "partitioning: {keys: [eu, eu]}": "keys has 'eu' twice; allowed are different keys",
        "partitioning: {keys: [7]}": "'keys[0]' is 7; allowed are texts",
        "partitioning: {keys: [eu], start: 2024-01-01}": "'start' has no effect with 'keys'; write 'time' or remove it",
        "partitioning: {keys: [eu], dynamic: {}}": "a partitioning has one of time, keys, dynamic, dimensions; here: "
        "keys and dynamic",
        "partitioning: {dynamic: {limit: 0}}": "'limit' is 0; allowed are 1 or more",
        "partitioning: {dimensions: {a: {keys: [x]}}}": "dimensions has 1 entry; allowed are 2 or 3",
        "partitioning: {dimensions: {a: {keys: [x]}, A: {keys: [y]}}}": "dimensions has a name twice: a, A; allowed "
        "are different names, in any case",
        "partitioning: {dimensions: {a: {keys: [x]}, b: {keys: [y]}}, column: c}": "'column' has no effect with "
        "'dimensions': their names are the columns",
        "partitioning: {dimensions: {a: {keys: [x]}, b: {strat: 2024-01-01, time: day}}}": "unknown field 'strat'; did "
        "you mean 'start'?",
        "retain: 30d": "'retain' has no effect on an asset without 'partitioning'; add it, or remove 'retain'",
        "frozenAfter: 30d": "'frozenAfter' has no effect on an asset without 'partitioning'; add it, or remove "
        "'frozenAfter'",
        "freshness: {ttl: 1d, partitions: {latest: 3}}": "'freshness.partitions' has no effect on an asset without "
        "'partitioning'; add it, or remove 'freshness.partitions'",
        "autoMaterialize: {partitions: {limit: 5}}": "'autoMaterialize.partitions' has no effect on an asset without "
        "'partitioning'; add it, or remove 'autoMaterialize.partitions'",
        "autoMaterialize: {partitions: {beyond: run}}": "'beyond' is \"run\"; allowed are 'propose' or 'ignore'",
    }.items(),
)
def test_mistakes_in_an_output(tmp_path: Path, field: str, message: str) -> None:
    """A wrong field about partitions is refused at its line, with its value and what is allowed."""
    assert mistakes(tmp_path, files(output(field))) == [f"workflows/sales.yaml:7: asset 'sales.daily': {message}"]


@pytest.mark.parametrize(
    ("fields", "message"),
    {
        ("partitioning: {keys: [eu]}", "retain: 30d"): "8: asset 'sales.daily': 'retain' needs partitions by time, "
        "whose age is known; remove it",
        (f"partitioning: {DAY}", "retain: 30d", "frozenAfter: 30d"): "9: asset 'sales.daily': 'frozenAfter' is not "
        "shorter than 'retain', so that no partition is frozen before it is removed; write a shorter one, or remove it "
        "(see workflows/sales.yaml:8)",
        (f"partitioning: {DAY}", "table: {partitionBy: [region, Day]}"): "8: asset 'sales.daily': 'partitionBy' names "
        "'Day', the column of the partition, which comes first by itself; remove it (see workflows/sales.yaml:7)",
    }.items(),
)
def test_fields_that_do_not_fit_together(tmp_path: Path, fields: tuple[str, ...], message: str) -> None:
    """Two fields of an output that contradict each other are refused with both lines."""
    assert mistakes(tmp_path, files(output(*fields))) == [f"workflows/sales.yaml:{message}"]


def test_the_line_is_that_of_the_field(tmp_path: Path) -> None:
    """In a block over several lines the error has the line of the wrong field."""
    block = ["partitioning:", "  dimensions:", "    day:", "      time: day", "      start: soon", "    region:"]
    text = output(*block, "      keys: [eu]")
    assert mistakes(tmp_path, files(text))[0].startswith("workflows/sales.yaml:11: asset 'sales.daily': start 'soon'")


@pytest.mark.parametrize(
    ("consumes", "partitioning", "message"),
    [
        ("{assetId: days, partitions: sam}", DAY, "'partitions' is 'sam'; allowed are same, overlap, all and blocks"),
        (
            "{assetId: days, partitions: {same: true, latest: 1}}",
            DAY,
            "'partitions' has same and latest; allowed is one",
        ),
        ("{assetId: days, partitions: {window: {from: 1, to: 0}}}", DAY, "'from' is 1; allowed is 0 (to) or less"),
        ("{assetId: days, partitions: {window: {from: -6}}}", DAY, "field 'to' is missing"),
        ("{assetId: days, partitions: {same: false}}", DAY, "'same' is false; allowed are true"),
        ("{assetId: days, partitions: {overlap: partly}}", DAY, "'overlap' is \"partly\"; allowed are true or 'whole'"),
        ("{assetId: days, partitions: {latest: 0}}", DAY, "'latest' is 0; allowed are 1 or more"),
        ("{assetId: days, partitions: {require: 110%}}", DAY, "require is '110%'; allowed are all, any, a number"),
        ("{assetId: days, partitions: {grace: soon}}", DAY, "'grace' 'soon' is not a duration"),
        ("{assetId: days, partitions: {affects: latest}}", DAY, "affects is latest, which is about an input without"),
        ("{assetId: days, partitions: {onRetire: drop}}", DAY, "'onRetire' is \"drop\"; allowed are 'keep' or"),
        ("{assetId: both, partitions: {pick: {regoin: eu}}}", DAY, "dimension 'regoin' does not exist in the input"),
        ("{assetId: both, partitions: {pick: {region: asia}}}", DAY, "pick: partition key 'asia' does not exist"),
        ("{assetId: both, partitions: {dimensions: {day: {}}}}", DAY, "a dimension has no rule; allowed is one of"),
        ("{assetId: weeks}", "{time: month, start: 2024-01-01}", "months in UTC do not consist of whole weeks in UTC"),
        ("{assetId: hours}", "{time: day, timezone: Asia/Kolkata, start: 2024-01-01}", "days in Asia/Kolkata do not"),
        (
            "{assetId: hours, partitions: same}",
            DAY,
            "same needs equal keys; the input has hours (UTC) and the consumer",
        ),
        ("{assetId: regions}", DAY, "the input has fixed keys and the consumer days in UTC; no mapping follows"),
        ("{assetId: whole, partitions: same}", DAY, "the input has no partitions, so that every partition of the"),
        ("{assetId: whole, partitions: {require: any}}", DAY, "require is about partitions, and the input has none"),
        ("{assetId: whole, partitions: {onRetire: keep}}", DAY, "onRetire is about partitions, and the input has none"),
        ("{assetId: days, partitions: {grace: 2h}}", "", "grace is about the window of the consumer's partitions"),
        ("{assetId: days, partitions: {timeColumn: t}}", "", "timeColumn is about the window of the consumer's"),
        ("{assetId: days, partitions: same}", "", "same needs a consumer with partitions that correspond to days in"),
        ("{assetId: sales.daily}", DAY, "a workflow that reads its own output may read only earlier partitions of it"),
        (
            "{assetId: sales.daily, partitions: {window: {from: -1, to: 0}}}",
            DAY,
            "a workflow that reads its own output may read only earlier partitions of it; write a window that ends",
        ),
        ("{assetId: sales.daily, partitions: all}", "", "the workflow has no partitions, and reads its own output"),
    ],
)
def test_mistakes_in_an_input(tmp_path: Path, consumes: str, partitioning: str, message: str) -> None:
    """A mapping that cannot be is refused at the line of the input, with the reason."""
    (found,) = mistakes(tmp_path, files(reader(consumes, partitioning)))
    asset_id = consumes.split("assetId: ")[1].split("}", maxsplit=1)[0].split(",", maxsplit=1)[0]
    assert found.startswith(f"workflows/sales.yaml:6: asset '{asset_id}': {message}"), found


@pytest.mark.parametrize(
    ("consumes", "partitioning"),
    [
        ("{assetId: hours}", DAY),
        ("{assetId: hours}", "{time: day, timezone: Europe/Berlin, start: 2024-01-01}"),
        ("{assetId: hours, partitions: {timeColumn: t}}", "{time: day, timezone: Asia/Kolkata, start: 2024-01-01}"),
        ("{assetId: hours, partitions: {overlap: whole}}", "{time: day, timezone: Asia/Kolkata, start: 2024-01-01}"),
        ("{assetId: days, partitions: {window: {from: -6, to: 0}, require: 80%, grace: 2h}}", DAY),
        ("{assetId: days, partitions: {latest: 2}}", ""),
        ("{assetId: days}", ""),
        ("{assetId: regions, partitions: all}", DAY),
        ("{assetId: both, partitions: {pick: {region: [eu, us]}, onRetire: recompute}}", DAY),
        ("{assetId: both, partitions: {dimensions: {day: {window: {from: -1, to: 0}}, region: all}}}", DAY),
        ("{assetId: whole, partitions: {affects: latest}}", DAY),
        ("{assetId: sales.daily, partitions: {window: {from: -7, to: -1}}}", DAY),
        ("{assetId: days, freshness: {maxAge: 1d}}", DAY),
        ("{assetId: elsewhere, partitions: {window: {from: -6, to: 0}}}", DAY),
    ],
)
def test_mappings_that_are_possible(tmp_path: Path, consumes: str, partitioning: str) -> None:
    """Each of them loads; an input that is not declared is the only thing that is warned about."""
    project = loaded(tmp_path, files(reader(consumes, partitioning)))
    assert [one for one in project.warnings if "neither produced nor a declared source" not in one] == []


TWO = HEAD + "    produces:\n      - {assetId: a%s}\n      - {assetId: b%s}\n"  # lines 6 and 7


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (f", partitioning: {DAY}", "", '\'partitioning\' is null, but {"time": "day"'),
        ("", f", partitioning: {DAY}", '\'partitioning\' is {"time": "day", "start": "2024-01-01"}, but null for'),
        (
            f", partitioning: {DAY}",
            ", partitioning: {time: hour, start: 2024-01-01}",
            '\'partitioning\' is {"time": "ho',
        ),
        (
            f", partitioning: {DAY}",
            ", partitioning: {time: day, start: 2023-01-01}",
            '\'partitioning\' is {"time": "day',
        ),
        (
            f", partitioning: {DAY}, retain: 9d",
            f", partitioning: {DAY}",
            "'retain' is null, but 777600000 for asset 'a'",
        ),
    ],
)
def test_outputs_that_disagree(tmp_path: Path, first: str, second: str, message: str) -> None:
    """All outputs of a workflow have the same partitions: a run makes one partition of each."""
    (found,) = mistakes(tmp_path, files(TWO % (first, second)))
    assert found.startswith(f"workflows/sales.yaml:7: asset 'b': {message}"), found
    assert found.endswith(
        "the outputs of a workflow have the same partitions; split the workflow (see workflows/sales.yaml:6)"
    )


def test_outputs_may_have_columns_of_their_own(tmp_path: Path) -> None:
    """The column is about a table, not about the keys. The same partitions may be written in two ways."""
    same = ", partitioning: {time: day, start: 2024-01-01T00:00, timezone: UTC, column: d}"
    loaded(tmp_path, files(TWO % (f", partitioning: {DAY}", same)))


STEPS = (
    "slug: sales\nsteps:\n"
    "  - id: one\n    job: {{kind: python, entrypoint: jobs:run}}\n    consumes: [{{assetId: days{}}}]\n"
    "    produces: [{{assetId: a, partitioning: {{time: day, start: 2024-01-01}}}}]\n"
    "  - id: two\n    job: {{kind: python, entrypoint: jobs:run}}\n    consumes: [{}]\n"
    "    produces: [{{assetId: b, partitioning: {{time: day, start: 2024-01-01}}}}]\n"
)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            "",
            "{assetId: days, partitions: {latest: 1}}",
            "asset 'days': is read by two steps with different 'partitions'",
        ),
        (
            ", partitions: {require: any}",
            "{assetId: days, partitions: {require: 2}}",
            "asset 'days': is read by two steps with different 'partitions'",
        ),
        (
            "",
            "{assetId: a, partitions: {window: {from: -1, to: -1}}}",
            "asset 'a': step 'one' of this workflow produces it in the same run, for the same partition",
        ),
    ],
)
def test_steps_that_disagree(tmp_path: Path, first: str, second: str, message: str) -> None:
    """A run reads each input in one way, and what an earlier step made for the same partition."""
    (found,) = mistakes(tmp_path, files(STEPS.format(first, second)))
    assert found.startswith(f"workflows/sales.yaml:9: {message}"), found


SOURCE = "assetId: orders\nformat: json\n{}\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "path: data/{partitionKey}",
            "3: asset 'orders': 'path' has {partitionKey}, and the source has no partitions; add 'partitioning'",
        ),
        (
            f"path: data\nmode: append\npartitioning: {DAY}",
            (
                "5: asset 'orders': 'partitioning' is not possible with 'mode: append': a report of a partition "
                "replaces its data, and one of an append source adds to it; remove 'mode: append' if each file belongs "
                "to a partition, else 'partitioning'"
            ),
        ),
    ],
)
def test_sources_that_cannot_be(tmp_path: Path, fields: str, message: str) -> None:
    """A source whose path and partitions contradict each other is refused at the line of the field."""
    found = mistakes(tmp_path, {"sources/orders.yaml": SOURCE.format(fields)})
    assert message in [one.removeprefix("sources/orders.yaml:") for one in found]


@pytest.mark.parametrize(
    ("path", "warnings"),
    [
        ("data/{partitionKey}", []),
        (
            "data",
            ["so that every report of a partition needs a path of its own; write {partitionKey} where the key is"],
        ),
        ("data/{partitionkey}", ["needs a path of its own; did you mean '{partitionKey}'?"]),
    ],
)
def test_paths_of_partitioned_sources(tmp_path: Path, path: str, warnings: list[str]) -> None:
    """A path without the key is possible: each report then names one. It is warned about."""
    project = loaded(tmp_path, {"sources/orders.yaml": SOURCE.format(f"path: {path}\npartitioning: {DAY}")})
    assert len(project.warnings) == len(warnings)
    assert all(part in one for part, one in zip(warnings, project.warnings, strict=True))
    (source,) = project.sources
    assert project.allowed_paths(source.definition).prefixes == (str(tmp_path / "data"),)


def test_an_input_that_is_removed_too_early(tmp_path: Path) -> None:
    """Retention that is shorter than what one partition of a consumer reads is warned about at the consumer."""
    text = output(f"partitioning: {DAY}", "retain: 6d")
    week = reader("{assetId: sales.daily, partitions: {window: {from: -6, to: 0}}}").replace("sales\n", "weekly\n", 1)
    week = week.replace("- {assetId: sales.daily, partitioning", "- {assetId: sales.weekly, partitioning")
    project = loaded(tmp_path, {**files(text), "workflows/weekly.yaml": week})
    assert project.warnings == (
        (
            "workflows/weekly.yaml:6: asset 'sales.daily': 'retain' of the input is 6d, and a partition of this "
            "workflow reads what is up to 8d old; write a longer 'retain'"
        ),
    )
    assert loaded(tmp_path, {"workflows/sales.yaml": text.replace("6d", "8d")}).warnings == ()


def test_edges_to_other_projects_are_resolved_later(tmp_path: Path) -> None:
    """A project resolves its edges with what is known of assets elsewhere; that does not hide its own."""
    project = loaded(tmp_path, files(reader("{assetId: elsewhere}") + "    dependsOn: []\n"))
    hours = from_json({"time": "hour", "start": "2024-01-01"})
    assert set(project.partition_edges({}).resolved) == set()
    edges = project.partition_edges({"elsewhere": hours, "sales.daily": hours})
    assert set(edges.resolved) == {("elsewhere", "sales")}
    (refused,) = project.partition_edges({"elsewhere": from_json({"keys": ["eu"]})}).refused
    assert refused.message.startswith("the input has fixed keys and the consumer days in UTC")


def test_a_refused_workflow_causes_no_other_errors(tmp_path: Path) -> None:
    """Consumers of an output whose partitioning is wrong are not refused for it."""
    text = output("partitioning: {time: day}")
    month = reader("{assetId: sales.daily}", "{time: month, start: 2024-01-01}").replace("sales\n", "monthly\n", 1)
    month = month.replace("- {assetId: sales.daily, part", "- {assetId: sales.monthly, part")
    assert len(mistakes(tmp_path, {**files(text), "workflows/monthly.yaml": month})) == 1


HOURS = "- assetId: raw\n  partitioning: {time: hour, start: 2024-01-01, end: 2024-02-01}\n"


WINDOW = "{assetId: raw, partitions: {window: {from: -24, to: 0}}}"


@pytest.mark.parametrize(
    ("item", "partitioning", "end", "warning"),
    [
        ("{assetId: raw}", DAY, "2024-02-01", "partitions from 2024-02-01 on read no data"),
        ("{assetId: raw}", "{time: month, start: 2024-01, end: 2024-03}", "2024-02", "partition 2024-02 reads no data"),
        (WINDOW, DAY, "2024-02-02", "partitions from 2024-02-02 on read no data"),
    ],
)
def test_partitions_after_the_end_of_an_input(
    tmp_path: Path, item: str, partitioning: str, end: str, warning: str
) -> None:
    """They would run on nothing: a warning at the output names the first one and the `end` to write."""
    (text,) = loaded(tmp_path, files(reader(item, partitioning), HOURS)).warnings
    assert text == (
        f"workflows/sales.yaml:8: asset 'sales.daily': {warning}, because the last partition of input 'raw' is "
        f"2024-01-31T23; write 'end: {end}' (see sources/all.yaml:2)"
    )
    right = partitioning.replace(", end: 2024-03", "").replace("}", f", end: {end}}}")
    (tmp_path / "right").mkdir()
    assert loaded(tmp_path / "right", files(reader(item, right), HOURS)).warnings == ()


def test_all_partitions_of_an_input_that_ends(tmp_path: Path) -> None:
    """What reads all partitions reads something at any time."""
    assert loaded(tmp_path, files(reader("{assetId: raw, partitions: all}"), HOURS)).warnings == ()


def test_an_input_that_goes_on_is_enough(tmp_path: Path) -> None:
    """A closed source beside one that goes on is history, and nothing is wrong."""
    both = "{assetId: raw}\n      - {assetId: days}"
    assert loaded(tmp_path, files(reader(both), HOURS + SOURCES)).warnings == ()
