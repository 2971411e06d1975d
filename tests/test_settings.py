"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshline import settings
from freshline.errors import UsageError

NUMBERS = {
    "ASSET_MATERIALIZER_BASE_BACKOFF_MS": ("base_backoff_ms", 120_000),
    "ASSET_MATERIALIZER_MAX_BACKOFF_MS": ("max_backoff_ms", 1_800_000),
    "ASSET_MATERIALIZER_REFRESH_INTERVAL_MS": ("refresh_interval_ms", 600_000),
    "FRESHLINE_POLL_MS": ("poll_ms", 1_000),
    "FRESHLINE_LEASE_MS": ("lease_ms", 15_000),
    "FRESHLINE_BATCH": ("batch", 500),
    "FRESHLINE_MAX_WORKER_LOSSES": ("max_worker_losses", 5),
    "FRESHLINE_KEEP_DAYS": ("keep_days", 30),
    "FRESHLINE_KEEP_FAILED_HOURS": ("keep_failed_hours", 24),
    "FRESHLINE_COLUMN_SETS": ("column_sets", 4),
    "FRESHLINE_BUS_LENGTH": ("bus_length", 100_000),
    "FRESHLINE_BUS_DEAD_LENGTH": ("bus_dead_length", 10_000),
    "FRESHLINE_BUS_TIMEOUT_MS": ("bus_timeout_ms", 2_000),
}


def test_an_empty_environment_gives_the_defaults(tmp_path: Path) -> None:
    """Without any variable everything lives in the project's own directory, and the documented defaults hold."""
    found = settings.load({}, project=tmp_path)
    assert found == settings.Settings(project=tmp_path.resolve())
    assert found.home == tmp_path.resolve() / ".freshline"
    assert found.warehouse_at == str(found.home / "warehouse")
    assert {name: getattr(found, field) for name, (field, _) in NUMBERS.items()} == {
        name: default for name, (_, default) in NUMBERS.items()
    }


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_taken(name: str) -> None:
    """Each numeric variable reaches its field, and an empty one means the default."""
    field, default = NUMBERS[name]
    assert getattr(settings.load({name: "777"}), field) == 777
    assert getattr(settings.load({name: " "}), field) == default


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("text", ["ten", "1.5", "-1", "99999999999999999999", "0x10"])
def test_a_bad_number_is_refused_with_its_name_and_value(name: str, text: str) -> None:
    """The error names the variable, the value and what is allowed."""
    with pytest.raises(UsageError, match=f"{name} is '{text}'; allowed are whole numbers from "):
        settings.load({name: text})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("FRESHLINE_KEEP_TABLES_MS", "7d", 604_800_000),
        ("FRESHLINE_POLL_MS", "1.5s", 1_500),
        ("FRESHLINE_POLL_MS", " 250 ms ", 250),
        ("ASSET_MATERIALIZER_MAX_BACKOFF_MS", "1h30m", 5_400_000),
        ("FRESHLINE_KEEP_DAYS", "2w", 14),
        ("FRESHLINE_KEEP_FAILED_HOURS", "2d", 48),
        ("FRESHLINE_KEEP_DAYS", "7", 7),
    ],
)
def test_a_duration_may_have_units(name: str, text: str, value: int) -> None:
    """A plain number is in the unit that the name ends with."""
    field = name.partition("_")[2].lower().removeprefix("materializer_")
    assert getattr(settings.load({name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FRESHLINE_KEEP_DAYS", "36h"),
        ("FRESHLINE_KEEP_DAYS", "11y"),
        ("FRESHLINE_POLL_MS", "2m"),
        ("FRESHLINE_POLL_MS", "-1s"),
        ("FRESHLINE_BATCH", "7d"),
    ],
)
def test_a_duration_that_does_not_fit_is_refused(name: str, text: str) -> None:
    """Not whole, not a unit, beyond the range, or not a duration at all."""
    with pytest.raises(UsageError, match=f"{name} is '{text}'; allowed are whole numbers from "):
        settings.load({name: text})


def test_the_refresh_can_be_turned_off() -> None:
    """Zero turns the sweep off; the backoffs have no such value."""
    assert settings.load({"ASSET_MATERIALIZER_REFRESH_INTERVAL_MS": "0"}).refresh_interval_ms == 0
    with pytest.raises(UsageError):
        settings.load({"ASSET_MATERIALIZER_BASE_BACKOFF_MS": "0"})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("FRESHLINE_LOG_FORMAT", "xml", "console, json"),
        ("FRESHLINE_LOG_LEVEL", "loud", "debug, info, warning, error"),
    ],
)
def test_a_bad_choice_is_refused_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    """Choices name the variable, the value and the allowed ones."""
    with pytest.raises(UsageError, match=f"{name} is '{value}'.*{allowed}"):
        settings.load({name: value})


@pytest.mark.parametrize(
    "address",
    [
        "redis://host",
        "redis://user:secret@host:6380/2",
        "rediss://:s%2Fcret@host/0?ssl_ca_certs=/ca.pem",
        "redis://[::1]:6379",
        "unix:///run/redis.sock?db=1",
        "unix://:secret@/run/redis.sock",
    ],
)
def test_an_address_of_redis_is_taken_and_never_shown(address: str) -> None:
    """All forms that the documentation names; the settings' own text leaves out what may carry a password."""
    found = settings.load({"FRESHLINE_EVENT_BUS": address})
    assert found.event_bus == address
    assert address not in repr(found)


@pytest.mark.parametrize(
    "address",
    [
        "kafka",
        "canary@host",
        "carrier-pigeon://canary",
        "redis:canary",
        "redis://",
        "redis://:canary@",
        "redis://host/canary",
        "redis://host:canary",
        "redis://:pass/canary@host",
        "redis://:pass#canary@host",
        "redis://:pass?canary@host",
        "redis://:pass?a=canary@host",
        "redis://host?password=canary",
        "redis://host?canary=1",
        "redis://host#canary",
        "redis://[canary",
        "unix://canary/redis.sock",
        "unix://",
    ],
)
def test_a_bad_address_of_redis_is_refused_without_being_shown(address: str) -> None:
    """One sentence with the variable and all that is allowed; no part of it that may be half a password."""
    with pytest.raises(UsageError) as refused:
        settings.load({"FRESHLINE_EVENT_BUS": address})
    text = str(refused.value)
    assert text.startswith("FRESHLINE_EVENT_BUS")
    assert all(allowed in text for allowed in ("'inline'", "redis://", "rediss://", "unix://"))
    assert "canary" not in text


def test_the_project_comes_from_argument_environment_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument wins over FRESHLINE_PROJECT, which wins over the current directory."""
    monkeypatch.chdir(tmp_path)
    assert settings.load({}).project == tmp_path.resolve()
    assert settings.load({"FRESHLINE_PROJECT": "/"}).project == Path("/")
    assert settings.load({"FRESHLINE_PROJECT": "/"}, project=tmp_path).project == tmp_path.resolve()


def test_empty_variables_count_as_unset() -> None:
    """A variable that is set to nothing does not turn into an address or a path."""
    names = ["DATABASE_URL", "EVENT_BUS", "WAREHOUSE", "SPARK_REMOTE", "SPARK_TOKEN", "SPARK_MASTER", "LOG_LEVEL"]
    assert settings.load({f"FRESHLINE_{name}": "" for name in names}) == settings.load({})


def test_addresses_are_taken_as_they_are(tmp_path: Path) -> None:
    """Database, warehouse and engine come from their variables."""
    found = settings.load(
        {
            "FRESHLINE_DATABASE_URL": "postgresql://db/x",
            "FRESHLINE_WAREHOUSE": str(tmp_path),
            "FRESHLINE_SPARK_REMOTE": "sc://host",
            "FRESHLINE_SPARK_MASTER": "local[2]",
        }
    )
    assert found.database_url == "postgresql://db/x"
    assert found.warehouse_at == str(tmp_path.resolve())
    assert (found.spark_remote, found.spark_master) == ("sc://host", "local[2]")


def test_a_token_of_spark_is_never_shown() -> None:
    """Neither in the settings as text nor in the error about an address that cannot be read."""
    found = settings.load({"FRESHLINE_SPARK_REMOTE": "sc://h:1/;token=canary", "FRESHLINE_SPARK_TOKEN": "canary"})
    assert found.spark_remote == "sc://h:1/;token=canary"
    assert found.spark_token == "canary"  # noqa: S105 - it is none
    assert "canary" not in repr(found)


@pytest.mark.parametrize(
    "address",
    [
        "canary",
        "http://canary",
        "sc://",
        "sc:///;token=canary",
        "sc://h/canary",
        "sc://canary@h",
        "sc://h:canary",
        "sc://h/;canary",
        "sc://h/;token=canary=canary",
        "sc://h/;token=canary;session_id=1",
    ],
)
def test_an_address_of_spark_connect_that_is_wrong_is_refused_unshown(address: str) -> None:
    """The error says what is allowed and shows no part of the address, which may be a token."""
    with pytest.raises(
        UsageError, match=r"^FRESHLINE_SPARK_REMOTE (is not an address of|names a session_id)"
    ) as caught:
        settings.load({"FRESHLINE_SPARK_REMOTE": address})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "hdfs://canary@host/canary",
        "hdfs://host:canary/canary",
        "hdfs:///canary",
        "s3a://bucket/../canary",
        "s3a://[canary",
        "s3a://bu cket/canary",
        "abfss://@account/canary",
        "abfss://canary@b@c/canary",
        "http://canary/canary",
        "https://canary.s3.amazonaws.com/canary",
        "dbfs:/canary/canary",
        "file://canary/canary",
        "s3a://key:canary@bucket/canary",
        "s3://canary@bucket/canary",
        "s3a://bucket:canary/canary",
        "s3a://bucket/canary?secret=canary",
        "s3a://bucket/canary?",
        "s3a://bucket/canary#canary",
        "s3a://bucket//canary",
        "s3a:///canary",
        "s3a:/canary",
        "s3a://?canary",
        "gs://canary@bucket/",
        "gs://",
        "abfss://canary/canary",
        "abfss://account.dfs.core.windows.net/canary",
        "abfss://container:canary@account.dfs.core.windows.net/canary",
        "abfss://canary@/canary",
    ],
)
def test_a_warehouse_that_cannot_be_one_is_refused_unshown(value: str) -> None:
    """An unknown address is an error and not a directory of that name. The error shows only its scheme."""
    with pytest.raises(UsageError, match=r"^FRESHLINE_WAREHOUSE is an address") as caught:
        settings.load({"FRESHLINE_WAREHOUSE": value})
    scheme = value.split(":", 1)[0]
    assert str(caught.value) == (
        f"FRESHLINE_WAREHOUSE is an address, '{scheme}:…'; allowed is {settings.WAREHOUSE_FORM}"
    )
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("value", ["/mnt/a b", "file:///mnt/a%20b", "/mnt/x/../a b"])
def test_a_warehouse_is_a_directory(value: str) -> None:
    """As a path, or as an address of one."""
    assert settings.load({"FRESHLINE_WAREHOUSE": value}).warehouse_at == "/mnt/a b"
    assert settings.load({"FRESHLINE_WAREHOUSE": "a:b"}).warehouse_at == str(Path("a:b").resolve())


@pytest.mark.parametrize(
    "value",
    [
        "s3a://bucket",
        "s3a://bucket/deep/er",
        "gs://bucket/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "abfs://container@account.dfs.core.windows.net",
        "hdfs://host:8020/a",
        "hdfs://nameservice/a/b",
        "viewfs://cluster/a",
    ],
)
def test_a_warehouse_is_a_part_of_a_bucket(value: str) -> None:
    """An address is taken as it is, but for slashes at its end."""
    assert settings.load({"FRESHLINE_WAREHOUSE": value}).warehouse_at == value
    assert settings.load({"FRESHLINE_WAREHOUSE": f"{value}/"}).warehouse_at == value
