"""Settings from the environment, read once at the edge and passed on as one frozen value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from freshline.errors import UsageError


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a process. Durations are milliseconds; docs/configuration.md lists them with their variables."""

    project: Path
    database_url: str | None = None  # None: the embedded server under .freshline/
    event_bus: str = "inline"
    warehouse: Path | None = None  # None: .freshline/warehouse
    spark_remote: str | None = None
    spark_master: str | None = None
    base_backoff_ms: int = 120_000
    max_backoff_ms: int = 1_800_000
    refresh_interval_ms: int = 600_000
    poll_ms: int = 1_000
    lease_ms: int = 15_000
    batch: int = 500
    poison: int = 5
    keep_days: int = 30
    log_format: str = "console"
    log_level: str = "info"

    @property
    def home(self) -> Path:
        """The project's private directory."""
        return self.project / ".freshline"

    @property
    def warehouse_path(self) -> Path:
        """Where tables live."""
        return self.warehouse or self.home / "warehouse"


def load(environ: Mapping[str, str] | None = None, *, project: Path | None = None) -> Settings:
    """Settings from `environ`. Bad values are refused with the variable's name and what is allowed."""
    env = os.environ if environ is None else environ
    root = (project or Path(env.get("FRESHLINE_PROJECT") or ".")).expanduser().resolve()
    warehouse = env.get("FRESHLINE_WAREHOUSE")
    return Settings(
        project=root,
        database_url=env.get("FRESHLINE_DATABASE_URL") or None,
        event_bus=_event_bus(env),
        warehouse=Path(warehouse).expanduser().resolve() if warehouse else None,
        spark_remote=env.get("FRESHLINE_SPARK_REMOTE") or None,
        spark_master=env.get("FRESHLINE_SPARK_MASTER") or None,
        base_backoff_ms=_number(env, "ASSET_MATERIALIZER_BASE_BACKOFF_MS", 120_000, low=1),
        max_backoff_ms=_number(env, "ASSET_MATERIALIZER_MAX_BACKOFF_MS", 1_800_000, low=1),
        refresh_interval_ms=_number(env, "ASSET_MATERIALIZER_REFRESH_INTERVAL_MS", 600_000, low=0),
        poll_ms=_number(env, "FRESHLINE_POLL_MS", 1_000, low=10, high=60_000),
        lease_ms=_number(env, "FRESHLINE_LEASE_MS", 15_000, low=500, high=3_600_000),
        batch=_number(env, "FRESHLINE_BATCH", 500, low=1, high=10_000),
        poison=_number(env, "FRESHLINE_POISON", 5, low=1, high=1_000),
        keep_days=_number(env, "FRESHLINE_KEEP_DAYS", 30, low=1, high=3_650),
        log_format=_choice(env, "FRESHLINE_LOG_FORMAT", "console", ("console", "json")),
        log_level=_choice(env, "FRESHLINE_LOG_LEVEL", "info", ("debug", "info", "warning", "error")),
    )


def _number(env: Mapping[str, str], name: str, default: int, *, low: int, high: int = 10**12) -> int:
    text = env.get(name)
    if text is None or not text.strip():
        return default
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise UsageError(f"{name} is {text!r}; allowed are whole numbers from {low} to {high}; default {default}")
    return value


def _choice(env: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = env.get(name) or default
    if value not in allowed:
        raise UsageError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
    return value


def _event_bus(env: Mapping[str, str]) -> str:
    value = env.get("FRESHLINE_EVENT_BUS") or "inline"
    if value == "inline":
        return value
    raise UsageError(f"FRESHLINE_EVENT_BUS is {value!r}; this version knows only 'inline'; unset it")
