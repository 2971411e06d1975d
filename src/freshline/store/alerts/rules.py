"""Alert rules: added by commands, or applied with a project.

An address is readable only by the sender. No listing, audit, log or error contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from freshline.errors import ConflictError, DefinitionError, DefinitionErrors, NotFoundError, Place, UsageError
from freshline.model.alerts import AlertKind, AlertPolicy, AlertRule, AlertTarget
from freshline.model.json import Json
from freshline.model.policy import Freshness, QuietHours
from freshline.store.db.database import Connection, Database, Row
from freshline.store.db.ids import new_id
from freshline.store.db.queries import load
from freshline.store.operations import audit
from freshline.suggest import did_you_mean

SQL = load("alerts")
MOST_RULES = 1_000
MANIFEST = "freshline.toml"


class Alerts:
    """Adds, pauses, resumes and removes rules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, rule: AlertRule, *, key: str | None = None) -> bool:
        """Add a rule that covers all assets. Return False if the same rule was added before with the same key."""
        rule_id = new_id()
        try:
            with self._database.transaction("add_alert") as connection:
                known = connection.execute(SQL["added"], {"key": key}).fetchone() if key else None
                if known:
                    _refuse_other(known, rule, key)
                    return False
                _refuse_many(connection)
                with audit.changing(connection, "add_alert", rule.name, "alert_state", rule_id):
                    connection.execute(SQL["add_rule"], {**_values(rule, rule_id), "project": None, "key": key})
                connection.execute(SQL["evaluate_soon"])
        except psycopg.errors.UniqueViolation:
            if self._was_added(key):  # a concurrent call with this key was faster
                return self.add(rule, key=key)
            hint = "choose another name; `freshline alert list` shows those that are taken"
            raise ConflictError(f"there is an alert '{rule.name}' already", hint=hint) from None
        return True

    def remove(self, name: str) -> None:
        """Remove a rule with its incidents and waiting messages. Nothing is sent about it."""
        with self._database.transaction("remove_alert") as connection:
            _change(connection, "remove_alert", name)

    def pause(self, name: str) -> None:
        """Pause a rule: it sends nothing. Incidents that end meanwhile are never reported."""
        with self._database.transaction("pause_alert") as connection:
            _change(connection, "pause_alert", name)

    def resume(self, name: str) -> None:
        """Resume a rule. It reports what is still wrong; waiting messages are sent at once."""
        with self._database.transaction("resume_alert") as connection:
            _change(connection, "resume_alert", name)

    def targets(self, name: str) -> list[AlertTarget]:
        """Return the addresses of a rule, to send a test."""
        with self._database.reading() as connection:
            row = connection.execute(SQL["targets"], {"name": name}).fetchone()
            if row is None:
                raise _unknown(connection, name)
        return [AlertTarget(**one) for one in row["targets"]]

    def _was_added(self, key: str | None) -> bool:
        if key is None:
            return False
        with self._database.reading() as connection:
            return connection.execute(SQL["added"], {"key": key}).fetchone() is not None


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """The rules of a project that an apply adds, changes and removes, by name."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return bool(self.added or self.changed or self.removed)


def stored(connection: Connection) -> dict[str, Row]:
    """Return all rules by name, to compare a project with them."""
    return {row["name"]: row for row in connection.execute(SQL["stored_rules"])}


def compare(project: str, rules: Sequence[AlertRule], rows: Mapping[str, Row]) -> RuleChanges:
    """Compare the declared rules with the stored ones, by name. Raise an error for names of others."""
    _refuse_clashes(project, rules, rows)
    known = {name: row for name, row in rows.items() if row["project"] == project}
    wanted = {rule.name: rule for rule in rules}
    return RuleChanges(
        tuple(sorted(wanted.keys() - known.keys())),
        tuple(sorted(name for name, rule in wanted.items() if name in known and not _same(rule, known[name]))),
        tuple(sorted(known.keys() - wanted.keys())),
    )


def save(connection: Connection, project: str, rules: Sequence[AlertRule]) -> None:
    """Store the rules of a project, in the transaction of an apply."""
    names = [rule.name for rule in rules]
    connection.execute(SQL["drop_rules"], {"project": project, "names": names})
    rows = [
        {**_values(rule, new_id()), "policy": policy_json(rule.policy), "targets": _targets(rule.targets)}
        for rule in rules
    ]
    connection.execute(SQL["save_rules"], {"project": project, "rules": Jsonb(rows)})
    connection.execute(SQL["give_up_targets"], {"project": project})
    connection.execute(SQL["evaluate_soon"])


def policy_json(policy: AlertPolicy) -> Json:
    """Return plain data for the store."""
    return asdict(policy)


def policy_of(data: Mapping[str, Any]) -> AlertPolicy:
    """Return the policy that `policy_json` was called on. A kind that this version does not know is ignored."""
    known = {kind.value for kind in AlertKind}
    rest = {key: data[key] for key in ("after_ms", "clear_after_ms", "title", "body")}
    return AlertPolicy(
        on=tuple(AlertKind(kind) for kind in data["on"] if kind in known),
        assets=tuple(data["assets"]),
        quiet=tuple(QuietHours(**{**one, "days": tuple(one["days"])}) for one in data["quiet"]),
        digest=Freshness(**data["digest"]) if data["digest"] else None,
        **rest,
    )


def _values(rule: AlertRule, rule_id: str) -> Json:
    return {
        "id": rule_id,
        "name": rule.name,
        "policy": Jsonb(policy_json(rule.policy)),
        "targets": Jsonb(_targets(rule.targets)),
        "shown": [target.shown for target in rule.targets],
    }


def _targets(targets: Iterable[AlertTarget]) -> list[Json]:
    return [{"env": one.env} if one.env else {"url": one.url} for one in targets]


def _same(rule: AlertRule, row: Row) -> bool:
    return bool(_plain(policy_json(rule.policy)) == row["policy"] and _targets(rule.targets) == row["targets"])


def _plain(data: Any) -> Any:
    """Return data as JSON returns it: lists instead of tuples."""
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    return [_plain(one) for one in data] if isinstance(data, list | tuple) else data


def _change(connection: Connection, what: str, name: str) -> None:
    rule = connection.execute(SQL["lock_rule"], {"name": name}).fetchone()
    if rule is None:
        raise _unknown(connection, name)
    if what == "remove_alert" and rule["project"] is not None:
        hint = f"remove [alerts.{name}] from its {MANIFEST} and apply it, or pause it: `freshline alert pause {name}`"
        raise UsageError(f"alert '{name}' belongs to project '{rule['project']}'", hint=hint)
    with audit.changing(connection, what, name, "alert_state", rule["id"]):
        connection.execute(SQL[what], {"id": rule["id"]})
    connection.execute(SQL["evaluate_soon"])


def _refuse_other(known: Row, rule: AlertRule, key: str | None) -> None:
    if known["name"] != rule.name or not _same(rule, known):
        raise ConflictError(f"the key {key!r} was used for another alert, '{known['name']}'; choose another")


def _refuse_many(connection: Connection) -> None:
    if len(connection.execute(SQL["rule_names"]).fetchall()) >= MOST_RULES:
        raise ConflictError(f"there are {MOST_RULES} alerts already; remove one first")


def _refuse_clashes(project: str, rules: Sequence[AlertRule], rows: Mapping[str, Row]) -> None:
    errors = []
    for rule in rules:
        owner = rows[rule.name]["project"] if rule.name in rows else project
        if owner != project:
            by = f"belongs to project '{owner}'" if owner else "was added by `freshline alert add`"
            text = f"alert '{rule.name}' {by}; names of alerts are global"
            errors.append(DefinitionError(text, place=Place(MANIFEST, rule.line), hint="choose another name"))
    if errors:
        raise DefinitionErrors(errors)


def _unknown(connection: Connection, name: str) -> NotFoundError:
    names = [row["name"] for row in connection.execute(SQL["rule_names"])]
    hint = did_you_mean(name, names) or "`freshline alert list` shows them"
    return NotFoundError(f"alert '{name}' does not exist", hint=hint)
