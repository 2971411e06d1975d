"""Freshness, automatic materialization, retries, backoff and quiet hours."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from freshline.definitions.schema import cron
from freshline.definitions.schema.base import AsTuple, FieldError, Millis, Model, PositiveMillis

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CronExpression = Annotated[str, AfterValidator(cron.expression)]
TimeOfDay = Annotated[str, AfterValidator(cron.time_of_day)]
Timezone = Annotated[str, AfterValidator(cron.timezone)]
ExceptionName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", max_length=200)]


class LatestPartitions(Model):
    """The newest partitions of an asset."""

    latest: Annotated[int, Field(ge=1, le=1_000)] = Field(description="How many of the newest partitions.")


class PartitionLimit(Model):
    """How many old partitions Freshline recomputes by itself."""

    limit: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=100, description="The maximum number of partitions within 24 hours, without the newest one."
    )
    beyond: Literal["propose", "ignore"] = Field(
        default="propose",
        description="What happens when there are more. propose: they wait for the approval of a backfill. ignore: they "
        "stay as they are until something else changes.",
    )


class Freshness(Model):
    """How long a produced asset stays fresh: until the first of `ttlMs`, `cadenceMs` and `cron`.

    `maxAgeMs` only alerts. It never causes a run.
    """

    ttl_ms: PositiveMillis | None = Field(default=None, description="Expires this long after it was produced.")
    cadence_ms: PositiveMillis | None = Field(default=None, description="Expires on a fixed grid since 1970-01-01Z.")
    offset_ms: Millis | None = Field(default=None, description="Shifts the grid of cadenceMs.")
    cron: CronExpression | None = Field(
        default=None, description="Expires at these times: minute hour day month weekday."
    )
    timezone: Timezone | None = Field(default=None, description="The time zone of cron; default UTC.")
    max_age_ms: PositiveMillis | None = Field(default=None, description="Alerts when the asset is older; runs nothing.")
    partitions: LatestPartitions | None = Field(
        default=None, description="Which partitions expire and alert, as in {latest: 3}; default: the newest one."
    )

    @model_validator(mode="after")
    def _needs(self) -> Self:
        if self.offset_ms is not None and self.cadence_ms is None:
            raise FieldError("offsetMs", "'offsetMs' has no effect without 'cadenceMs'; add 'cadenceMs' or remove it")
        if self.timezone is not None and self.cron is None:
            raise FieldError("timezone", "'timezone' has no effect without 'cron'; add 'cron' or remove it")
        return self


class InputFreshness(Model):
    """The maximum age of a consumed asset. Runs are held (`input-too-old`) while it is older."""

    max_age_ms: PositiveMillis = Field(description="Runs are held while the input is older.")


class AutoMaterialize(Model):
    """When Freshline runs the workflow automatically."""

    enabled: bool = Field(default=True, description="False keeps the block and turns it off.")
    on_upstream_update: bool = Field(default=False, description="Run when a consumed asset changes.")
    when: Literal["any", "all"] = Field(default="any", description="Whether one or all inputs must have a new version.")
    on_missing: bool = Field(default=True, description="Run when the asset was never produced.")
    priority: Annotated[int, Field(ge=0, le=1_000_000)] = Field(default=100, description="Lower is more urgent.")
    wait_for_upstream: bool = Field(
        default=True, description="Wait for ancestors whose results would make a run read a mix of generations."
    )
    max_wait_ms: Millis = Field(default=3_600_000, description="The maximum duration of such a wait.")
    debounce_ms: Millis = Field(default=0, description="Run only after the inputs did not change for this long.")
    max_delay_ms: PositiveMillis | None = Field(default=None, description="The maximum delay by debounceMs.")
    min_interval_ms: Millis = Field(default=0, description="The minimum time between the starts of two automatic runs.")
    parameter_defaults: dict[str, JsonValue] = Field(default={}, description="Parameters of automatic runs.")
    partitions: PartitionLimit | None = Field(
        default=None, description="How many partitions may be recomputed without an approval."
    )

    @model_validator(mode="after")
    def _delays_fit(self) -> Self:
        if self.max_delay_ms is not None and self.max_delay_ms < self.debounce_ms:
            allowed = f"allowed is {self.debounce_ms} (debounceMs) or more"
            raise FieldError("maxDelayMs", f"'maxDelayMs' is {self.max_delay_ms}; {allowed}")
        return self


class Retry(Model):
    """Tries of one step within a run. Without a block a step has 3 tries, 1 s and 2 s apart."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Tries in total, the first included."
    )
    backoff_ms: Millis = Field(default=1_000, description="The pause before the second try.")
    multiplier: Annotated[float, Field(ge=1, le=10)] = Field(
        default=2, description="Each further pause is longer by this factor."
    )
    max_backoff_ms: Millis = Field(default=60_000, description="The maximum pause.")
    on: (
        Literal["transient", "any"] | Annotated[tuple[ExceptionName, ...], AsTuple, Field(min_length=1, max_length=50)]
    ) = Field(
        default="transient",
        description="After which errors a step is tried again. transient: those that can go away by trying again, so "
        "not after a KeyError or an unresolved column. any: all but failed checks. A list: these classes of "
        "exceptions, such as ConnectionError or requests.exceptions.Timeout, with their subclasses.",
    )

    def pause_ms(self, tries: int) -> int:
        """Return the pause after `tries` failed tries."""
        return int(min(self.max_backoff_ms, self.backoff_ms * self.multiplier ** (tries - 1)))


class Backoff(Model):
    """Delays after failed automatic runs. Defaults are settings of the materializer."""

    base_ms: PositiveMillis | None = Field(
        default=None, description="The cooldown after the first failure; it doubles."
    )
    max_ms: PositiveMillis | None = Field(default=None, description="The maximum cooldown.")
    budget: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=5, description="Failures in a row that open the breaker."
    )
    probe_ms: PositiveMillis = Field(
        default=6 * 3_600_000, description="How often an open breaker lets one run through."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.base_ms is not None and self.max_ms is not None and self.max_ms < self.base_ms:
            raise FieldError("maxMs", f"'maxMs' is {self.max_ms}; allowed is {self.base_ms} (baseMs) or more")
        return self


class QuietHours(Model):
    """A window in which no automatic run starts, past midnight if `to` is not later than `from`."""

    from_: TimeOfDay = Field(alias="from", description="Start, as in 22:00.")
    to: TimeOfDay = Field(description="End, as in 06:00.")
    days: Annotated[tuple[Day, ...], AsTuple, Field(min_length=1)] = Field(
        default=DAYS, description="Days on which it starts."
    )
    timezone: Timezone = Field(default="UTC", description="The time zone of both times.")
