"""Settings from the environment. They are read once at start-up and passed on as one frozen record."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from freshline.duration import UNITS, milliseconds
from freshline.errors import UsageError

Network = IPv4Network | IPv6Network
INLINE = "inline"
WAREHOUSE_FORM = (
    "a directory that this machine and those of Spark see under the same path, such as /mnt/warehouse, or an address "
    "such as s3a://bucket/path, gs://bucket/path, abfss://container@account.dfs.core.windows.net/path or "
    "hdfs://host:port/path, without a key or password: those come from the environment"
)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # at least two letters: one letter may be a drive
# Addresses that Hadoop, `deltalake` and Freshline all support. They cannot have a password, a query or `..`.
_NAME = r"\w[\w.=-]*"
_PLACE = re.compile(
    rf"(?:(?:s3a?|gs)://{_NAME}|abfss?://{_NAME}@{_NAME}|hdfs://{_NAME}(?::\d+)?|viewfs://{_NAME})(?:/{_NAME})*/?",
    re.ASCII,
)
API_FORM = "http://host[:port] or https://host[:port], without a user; the token is FRESHLINE_API_TOKEN"
REMOTE_FORM = "sc://host[:port][/;name=value;...], with names such as token, user_id and use_ssl"
BUS_FORMS = "redis://[user:password@]host[:port][/number], the same with rediss:// for TLS, or unix:///path/of/socket"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a process. Durations are milliseconds. docs/configuration.md describes the variables."""

    project: Path
    database_url: str | None = field(default=None, repr=False)  # None: the embedded server under .freshline/
    event_bus: str = field(default=INLINE, repr=False)  # both URLs may contain a password, so repr omits them
    bus_length: int = 100_000
    bus_dead_length: int = 10_000
    bus_timeout_ms: int = 2_000
    warehouse: str | None = None  # a path or an address; None: .freshline/warehouse
    spark_remote: str | None = field(default=None, repr=False)  # it may carry a token
    spark_token: str | None = field(default=None, repr=False)
    spark_master: str | None = None
    base_backoff_ms: int = 120_000
    max_backoff_ms: int = 1_800_000
    refresh_interval_ms: int = 600_000
    poll_ms: int = 1_000
    lease_ms: int = 15_000
    batch: int = 500
    max_worker_losses: int = 5
    keep_days: int = 30
    keep_versions: int = 10
    keep_tables_ms: int = 7 * 86_400_000
    keep_failed_hours: int = 24
    column_sets: int = 4  # per asset
    api_host: str = "127.0.0.1"
    api_port: int = 8080
    api_auth: str = "loopback"
    api_connections: int = 1_000
    api_streams_per_token: int = 100
    api_url: str | None = None  # None: commands use the database
    api_token: str | None = field(default=None, repr=False)
    ready_lag_ms: int = 60_000  # 0: not checked
    actor: str | None = None  # None: user and host
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0  # 0: not served
    webhook_attempts: int = 30
    webhook_max_age_ms: int = 86_400_000
    webhook_timeout_ms: int = 10_000
    webhook_allow_private: tuple[Network, ...] = ()
    watch_threads: int = 16
    watch_probe_ms: int = 600_000
    log_format: str = "console"
    log_level: str = "info"

    @property
    def home(self) -> Path:
        """The project's private directory."""
        return self.project / ".freshline"

    @property
    def known_root(self) -> str | None:
        """The project's directory; None if this process was started elsewhere."""
        return str(self.project) if (self.project / "freshline.toml").is_file() else None

    @property
    def warehouse_at(self) -> str:
        """The location of tables: a path or an address."""
        return self.warehouse or str(self.home / "warehouse")


def load(environ: Mapping[str, str] | None = None, *, project: Path | None = None) -> Settings:
    """Read the settings from `environ`. Raise `UsageError` for an invalid value."""
    env = os.environ if environ is None else environ
    root = (project or Path(env.get("FRESHLINE_PROJECT") or ".")).expanduser().resolve()
    return Settings(
        project=root,
        database_url=env.get("FRESHLINE_DATABASE_URL") or None,
        event_bus=_event_bus(env.get("FRESHLINE_EVENT_BUS") or INLINE),
        bus_length=_number(env, "FRESHLINE_BUS_LENGTH", 100_000, low=1),
        bus_dead_length=_number(env, "FRESHLINE_BUS_DEAD_LENGTH", 10_000, low=1),
        # Below the 5 s after which PostgreSQL ends a transaction that does nothing: the relay waits for Redis in one.
        bus_timeout_ms=_duration(env, "FRESHLINE_BUS_TIMEOUT_MS", 2_000, low=50, high=4_000),
        warehouse=_warehouse(env.get("FRESHLINE_WAREHOUSE")),
        spark_remote=_spark_remote(env.get("FRESHLINE_SPARK_REMOTE")),
        spark_token=env.get("FRESHLINE_SPARK_TOKEN") or None,
        spark_master=env.get("FRESHLINE_SPARK_MASTER") or None,
        base_backoff_ms=_duration(env, "ASSET_MATERIALIZER_BASE_BACKOFF_MS", 120_000, low=1),
        max_backoff_ms=_duration(env, "ASSET_MATERIALIZER_MAX_BACKOFF_MS", 1_800_000, low=1),
        refresh_interval_ms=_duration(env, "ASSET_MATERIALIZER_REFRESH_INTERVAL_MS", 600_000, low=0),
        poll_ms=_duration(env, "FRESHLINE_POLL_MS", 1_000, low=10, high=60_000),
        lease_ms=_duration(env, "FRESHLINE_LEASE_MS", 15_000, low=500, high=3_600_000),
        batch=_number(env, "FRESHLINE_BATCH", 500, low=1, high=10_000),
        max_worker_losses=_number(env, "FRESHLINE_MAX_WORKER_LOSSES", 5, low=1, high=1_000),
        keep_days=_duration(env, "FRESHLINE_KEEP_DAYS", 30, low=1, high=3_650, unit="d"),
        keep_versions=_number(env, "FRESHLINE_KEEP_VERSIONS", 10, low=1, high=100_000),
        keep_tables_ms=_duration(env, "FRESHLINE_KEEP_TABLES_MS", 7 * 86_400_000, low=0),
        keep_failed_hours=_duration(env, "FRESHLINE_KEEP_FAILED_HOURS", 24, low=0, high=8_760, unit="h"),
        column_sets=_number(env, "FRESHLINE_COLUMN_SETS", 4, low=0, high=1_000),
        api_host=env.get("FRESHLINE_API_HOST") or "127.0.0.1",
        api_port=_number(env, "FRESHLINE_API_PORT", 8_080, low=1, high=65_535),
        api_auth=_choice(env, "FRESHLINE_API_AUTH", "loopback", ("loopback", "token")),
        api_connections=_number(env, "FRESHLINE_API_CONNECTIONS", 1_000, low=10, high=100_000),
        api_streams_per_token=_number(env, "FRESHLINE_API_STREAMS_PER_TOKEN", 100, low=1, high=300),
        api_url=_api_url(env.get("FRESHLINE_API_URL")),
        api_token=_api_token(env.get("FRESHLINE_API_TOKEN")),
        ready_lag_ms=_duration(env, "FRESHLINE_READY_LAG_MS", 60_000, low=0),
        actor=env.get("FRESHLINE_ACTOR") or None,
        metrics_host=env.get("FRESHLINE_METRICS_HOST") or "127.0.0.1",
        metrics_port=_number(env, "FRESHLINE_METRICS_PORT", 0, low=0, high=65_535),
        watch_threads=_number(env, "FRESHLINE_WATCH_THREADS", 16, low=1, high=1_000),
        watch_probe_ms=_duration(env, "FRESHLINE_WATCH_PROBE_MS", 600_000, low=1_000, high=86_400_000),
        webhook_attempts=_number(env, "FRESHLINE_WEBHOOK_ATTEMPTS", 30, low=1, high=1_000),
        webhook_max_age_ms=_duration(env, "FRESHLINE_WEBHOOK_MAX_AGE_MS", 86_400_000, low=0),
        webhook_timeout_ms=_duration(env, "FRESHLINE_WEBHOOK_TIMEOUT_MS", 10_000, low=100, high=30_000),
        webhook_allow_private=_networks(env, "FRESHLINE_WEBHOOK_ALLOW_PRIVATE"),
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


def _duration(
    env: Mapping[str, str], name: str, default: int, *, low: int, high: int = 10**12, unit: str = "ms"
) -> int:
    """Return a duration in its unit, which the name ends with: a whole number of them, or a text such as `7d`."""
    text = (env.get(name) or "").strip()
    if not text:
        return default
    value = _whole(text, UNITS[unit])
    if value is None or not low <= value <= high:
        units = {"ms": "milliseconds", "h": "hours", "d": "days"}[unit]
        raise UsageError(
            f"{name} is {env[name]!r}; allowed are whole numbers from {low} to {high}, in {units}, and durations such "
            f"as 90s, 1h30m or 7d that are; default {default}"
        )
    return value


def _whole(text: str, unit: int) -> int | None:
    """Return a number, or a duration as a number of units; None if it is neither."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        found, rest = divmod(milliseconds(text), unit)
    except ValueError:
        return None
    return None if rest else found


def _choice(env: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = env.get(name) or default
    if value not in allowed:
        raise UsageError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
    return value


def _networks(env: Mapping[str, str], name: str) -> tuple[Network, ...]:
    """Parse a comma-separated list of networks and addresses."""
    found = []
    for text in filter(None, (part.strip() for part in (env.get(name) or "").split(","))):
        try:
            found.append(ip_network(text))
        except ValueError:
            allowed = "networks and addresses such as 10.0.0.0/8,127.0.0.1,fd00::/8"
            raise UsageError(f"{name} has {text!r}; allowed are {allowed}") from None
    return tuple(found)


def _warehouse(value: str | None) -> str | None:
    """Return a directory or an address. Errors show only the scheme, because the value may contain a password."""
    if not value:
        return None
    if not (found := _ADDRESS.match(value)):
        return str(Path(value).expanduser().resolve())
    if local := re.fullmatch(r"file:(?://)?(/[^/].*)", value, re.IGNORECASE):
        return str(Path(unquote(local[1])).resolve())
    if not _PLACE.fullmatch(value):
        raise UsageError(f"FRESHLINE_WAREHOUSE is an address, '{found[1]}:…'; allowed is {WAREHOUSE_FORM}")
    return value.rstrip("/")


def _api_url(value: str | None) -> str | None:
    """Return the address of an API without its last slash. Errors omit the value: it may contain a password."""
    if not value:
        return None
    try:
        address = urlsplit(value)
        right = address.scheme in {"http", "https"} and address.hostname and "@" not in address.netloc
        address.port  # noqa: B018 - reading the property raises for an invalid port
    except ValueError:
        right = False
    if not right or address.query or address.fragment:
        raise UsageError(f"FRESHLINE_API_URL is not the address of an API; allowed is {API_FORM}")
    return value.rstrip("/").removesuffix("/api/v1")


def _api_token(value: str | None) -> str | None:
    """Return a token that fits into a header. Errors omit the value."""
    token = (value or "").strip()
    if not all(" " < character <= "~" for character in token):
        raise UsageError(
            "FRESHLINE_API_TOKEN is not a token; allowed is a token as `freshline token create` printed it"
        )
    return token or None


def _spark_remote(value: str | None) -> str | None:
    """Return the address of a Spark Connect server. Errors omit the value: it may contain a token."""
    if not value:
        return None
    place, _, options = value.partition(";")
    try:
        address = urlsplit(place)
        right = address.scheme == "sc" and address.hostname and address.path in {"", "/"} and "@" not in place
        address.port  # noqa: B018 - reading the property raises for an invalid port
    except ValueError:
        right = False
    if not right or any(one.count("=") != 1 for one in options.split(";") if one):
        raise UsageError(f"FRESHLINE_SPARK_REMOTE is not an address of Spark Connect; allowed is {REMOTE_FORM}")
    if "session_id=" in options:
        raise UsageError("FRESHLINE_SPARK_REMOTE names a session_id; every step gets its own session: remove it")
    return value


def _event_bus(value: str) -> str:
    if value == INLINE:
        return value
    scheme, separator, _ = value.partition("://")
    if not separator or scheme not in {"redis", "rediss", "unix"}:
        # An unknown address may still contain a password.
        shown = f"'{scheme}://…'" if separator else f"'{value}'" if value.isidentifier() else "no address"
        raise UsageError(f"FRESHLINE_EVENT_BUS is {shown}; allowed are '{INLINE}' and {BUS_FORMS}")
    problem = _bus_problem(value)
    if problem:
        raise UsageError(
            f"FRESHLINE_EVENT_BUS, a {scheme}:// address, {problem}; allowed are '{INLINE}' and {BUS_FORMS}"
        )
    return value


def _bus_problem(value: str) -> str | None:
    """Return the mistake of an address without any part of it: even the path may be part of a password."""
    try:
        address = urlsplit(value)
        options = parse_qsl(address.query, keep_blank_values=True, strict_parsing=bool(address.query))
        address.port  # noqa: B018 - reading the property raises for an invalid port
    except ValueError:
        return "cannot be read (percent-encode special characters of a password)"
    if address.fragment or not _place(address):
        return "names no place that can be read (percent-encode special characters of a password)"
    if any(name != "db" and not name.startswith("ssl_") for name, _ in options):
        return "has an option that is not known; known are db and those that begin with ssl_"
    return None


def _place(address: SplitResult) -> bool:
    if address.scheme == "unix":
        return len(address.path) > 1 and not address.hostname
    number = address.path.removeprefix("/")
    return bool(address.hostname) and (not number or (number.isascii() and number.isdigit()))
