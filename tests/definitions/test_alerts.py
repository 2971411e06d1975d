"""Alert rules in `freshline.toml`: every mistake with its line, and what is warned about."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline.definitions.alert_template import check, fill
from freshline.definitions.alerts import read_rule
from freshline.definitions.loading.project import load_project
from freshline.model.alerts import AlertKind, AlertTarget
from freshline.model.policy import Freshness, QuietHours
from tests.definitions.projects import mistakes

RULE = {"on": "failing", "to": "json://h/"}


def test_a_rule_with_everything() -> None:
    """All fields, in the forms that people write."""
    rule = read_rule(
        "sales",
        {
            "on": ["failing", "overdue", "failing"],
            "assets": ["sales.*", "orders"],
            "to": ["slack://a/b/c", {"env": "ALERT_URL"}],
            "after": "5m",
            "clearAfter": "30s",
            "quiet": "22:00-07:00",
            "timezone": "Europe/Vienna",
            "digest": "daily 08:05",
            "title": "{root}: {kind}",
            "body": "{{}} {why}",
        },
    )
    assert rule.policy.on == (AlertKind.FAILING, AlertKind.OVERDUE)
    assert rule.policy.quiet == (QuietHours("22:00", "07:00", timezone="Europe/Vienna"),)
    assert rule.policy.digest == Freshness(cron="5 8 * * *", timezone="Europe/Vienna")
    assert (rule.policy.after_ms, rule.policy.clear_after_ms) == (300_000, 30_000)
    assert rule.targets == (AlertTarget(url="slack://a/b/c"), AlertTarget(env="ALERT_URL"))
    assert [one.shown for one in rule.targets] == ["slack://***", "$ALERT_URL"]
    assert read_rule("x", {**RULE, "digest": "4h"}).policy.digest == Freshness(cadence_ms=14_400_000)
    assert read_rule("x", {**RULE, "digest": "0 8 * * mon"}).policy.digest == Freshness(cron="0 8 * * mon")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on": None}, "'on' is missing; write what to report"),
        ({"on": ["failed"]}, "'on' has 'failed'"),
        ({"to": None}, "'to' has 0 addresses; allowed are 1 to 20"),
        ({"to": "hunter2"}, "'to' has something that is not an address"),
        ({"to": "syslog://hunter2"}, "'to' has syslog://…, which acts on the machine of the materializer"),
        ({"to": {"var": "hunter2"}}, "'to' has a table; allowed is"),
        ({"to": {"env": "FRESHLINE_DATABASE_URL"}}, "Freshline's own settings are not addresses"),
        ({"to": ["json://h/ hunter2"]}, "'to' has something that is not an address"),
        ({"assets": "a b"}, "'assets' has 'a b'"),
        ({"assets": []}, "'assets' has 0 patterns; allowed are 1 to 50"),
        ({"after": "soon"}, "'soon' is not a duration"),
        ({"after": 5}, "'after' is 5; write a text in quotes"),
        ({"clearAfter": "8d"}, "'clearAfter' is '8d'; the longest is 7d"),
        ({"quiet": "22-7"}, "'quiet' is '22-7'; allowed are times"),
        ({"quiet": "08:00-08:00"}, "a whole day; pause the alert instead"),
        ({"timezone": "Europe/Wien"}, "is not a time zone"),
        ({"digest": "sometimes"}, "'digest' is 'sometimes'; allowed are 'daily 08:00'"),
        ({"digest": "daily 25:00"}, "is not a time of day"),
        ({"digest": "5s"}, "the shortest is 1m"),
        ({"title": "{rout}"}, "'title': a template has {rout}; did you mean 'root'?"),
        ({"body": "{why.__class__}"}, "'body': a template has {why.__class__}"),
        ({"body": "{why!r}"}, "a template has {why!r}"),
        ({"body": "{why:>10}"}, "a template has {why:>10}"),
        ({"body": "{"}, "a brace without its partner"),
        ({"body": "x" * 4_001}, "4001 characters; allowed are 4000"),
        ({"asset": "x"}, "unknown field 'asset'; did you mean 'assets'?"),
    ],
)
def test_mistakes_are_named_without_addresses(fields: dict[str, object], message: str) -> None:
    """Each error names the rule, the value and what is allowed; nothing of an address is shown."""
    data = {name: value for name, value in {**RULE, **fields}.items() if value is not None}
    with pytest.raises(ValueError, match="alert 'sales'") as error:
        read_rule("sales", data)
    assert message in str(error.value)
    assert "hunter2" not in str(error.value)


def test_mistakes_have_their_line(tmp_path: Path) -> None:
    """All rules are checked at once."""
    text = '[alerts.one]\non = "failing"\n\n[alerts."two"]\non = ["late"]\nto = "json://h/"\n\n[alerts]\n'
    found = mistakes(tmp_path, {"freshline.toml": text.replace("\n\n[alerts]\n", "\n")})
    assert [one.partition("; ")[0] for one in found] == [
        "freshline.toml:1: alert 'one': 'to' has 0 addresses",
        "freshline.toml:4: alert 'two': 'on' has 'late'",
    ]
    assert mistakes(tmp_path, {"freshline.toml": "alerts = 3"}) == [
        "freshline.toml:1: 'alerts' is not a table; write one table per alert, as in [alerts.sales]"
    ]


def test_secrets_in_the_file_and_patterns_without_assets_are_warned_about(tmp_path: Path) -> None:
    """An address in a file is a secret in a repository. A plain receiver has none."""
    (tmp_path / "freshline.toml").write_text(
        '[alerts.a]\non = "failing"\nto = "slack://hunter2/b/c"\n'
        '[alerts.b]\non = "failing"\nto = ["json://h/", {env = "X"}]\nassets = "sales.*"\n'
    )
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.yaml").write_text("assetId: orders\n")
    project = load_project(tmp_path)
    first, second = project.warnings
    assert "freshline.toml:1: alert 'a' has an address in this file" in first
    assert "hunter2" not in first
    assert "freshline.toml:4: alert 'b': no asset of this project matches 'sales.*'" in second
    assert [rule.name for rule in project.alerts] == ["a", "b"]


def test_a_template_inserts_values_as_they_are() -> None:
    """A value with braces is text: it is not a template."""
    assert fill(check("{{{root}}}: {error}"), {"root": "b", "error": "{why} {0}"}) == "{b}: {why} {0}"
