"""The kind `python`: what a function of the project returns. A worker calls it in a runner; here is what it means.

Pure. The function returns None (nothing is new), a version, or a list of deliveries; or one of them and a position,
which it gets back as `ctx.position` in the next look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from freshline.definitions.schema.watch import PythonWatch
from freshline.model.json import Json
from freshline.watching.look import MAX_FOUND, Found, Look, LookContext, LookError, Mode
from freshline.watching.watermark import Watermark, compare

MAX_TEXT = 500  # characters of a version or a key
MAX_POSITION_BYTES = 64 * 1024
MAX_PAYLOAD_BYTES = 256 * 1024
FORMS = {
    "snapshot": "a version (str) or None",
    "append": 'a list of deliveries, as in [{"key": "a.csv", "payload": {"path": "drop/a.csv"}}], or None',
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery that a function returned."""

    key: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function returned, checked. `moved`: it returned a position too."""

    version: str | None = None
    deliveries: Sequence[Delivery] = ()
    moved: bool = False
    position: Any = None


def look(spec: PythonWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:  # noqa: ARG001 - as others
    """Raise `LookError`: only a worker has the code of the project."""
    raise LookError(
        f"{spec.python} is called by a worker and not by this process",
        hint=f"`freshline watch show {context.asset_id}` shows what it returned",
    )


def returned(entrypoint: str, mode: Mode, value: Any) -> Returned:
    """Return what the value of a function means. Raise `LookError` for anything that is not allowed."""
    if isinstance(value, tuple):
        if len(value) != 2:  # noqa: PLR2004 - the result and the position
            raise _wrong(entrypoint, mode, f"a tuple of {len(value)} values; a tuple is the result and the position")
        value, position = value
        _check_json(entrypoint, "the position", position, MAX_POSITION_BYTES)
        return _returned(entrypoint, mode, value, moved=True, position=position)
    return _returned(entrypoint, mode, value)


def _returned(entrypoint: str, mode: Mode, value: Any, *, moved: bool = False, position: Any = None) -> Returned:
    if value is None:
        return Returned(moved=moved, position=position)
    if mode == "snapshot" and isinstance(value, str):
        _check_text(entrypoint, "the version", value)
        return Returned(value, (), moved, position)
    if mode == "append" and isinstance(value, list):
        return Returned(None, _deliveries(entrypoint, value), moved, position)
    raise _wrong(entrypoint, mode, f"a value of the type {type(value).__name__}")


def _deliveries(entrypoint: str, values: list[Any]) -> tuple[Delivery, ...]:
    if len(values) > MAX_FOUND:
        raise LookError(
            f"{entrypoint} returned {len(values):,} deliveries; allowed are {MAX_FOUND:,} at once",
            hint="return the first ones, and the others in the next look",
        )
    found: dict[str, Delivery] = {}
    for number, value in enumerate(values, 1):
        one = _delivery(entrypoint, number, value)
        if one.key in found:
            raise LookError(f"{entrypoint} returned two deliveries with the key {one.key[:80]!r}; keys are unique")
        found[one.key] = one
    return tuple(found.values())


def _delivery(entrypoint: str, number: int, value: Any) -> Delivery:
    where = f"delivery {number}"
    if not isinstance(value, dict) or set(value) - {"key", "payload"} or "key" not in value:
        fields = sorted(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise LookError(
            f"{entrypoint} returned {where} as {fields}; allowed is a dict with 'key' and 'payload'",
            hint="the key identifies a delivery for ever, such as the name of a file",
        )
    key, payload = value["key"], value.get("payload", {})
    _check_text(entrypoint, f"the key of {where}", key)
    if not isinstance(payload, dict):
        raise LookError(
            f"{entrypoint} returned {where} with a payload of the type {type(payload).__name__}; allowed is a dict"
        )
    _check_json(entrypoint, f"the payload of {where}", payload, MAX_PAYLOAD_BYTES)
    return Delivery(key, payload)


def _check_text(entrypoint: str, what: str, value: Any) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or "\x00" in value:
        shown = f"of {len(value):,} characters" if isinstance(value, str) else f"of the type {type(value).__name__}"
        raise LookError(f"{entrypoint} returned {what} {shown}; allowed are texts of 1 to {MAX_TEXT} characters")


def _check_json(entrypoint: str, what: str, value: Any, most: int) -> None:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise LookError(f"{entrypoint} returned {what}, which is not JSON: {error}") from None
    if size > most:
        raise LookError(f"{entrypoint} returned {what} with {size:,} bytes; allowed are {most:,}")


def _wrong(entrypoint: str, mode: Mode, what: str) -> LookError:
    return LookError(
        f"{entrypoint} returned {what}; allowed for a source with mode {mode} is {FORMS[mode]}",
        hint="a position may follow, as in `return result, position`",
    )


def result(mode: Mode, stored: Json | None, value: Returned, context: LookContext) -> Look:
    """Return the look of a checked value. The stored position has that of the function under `position`."""
    kept = dict(stored or {})
    if value.moved:
        kept["position"] = value.position
    if mode == "append":
        found = tuple(Found(one.key, None, one.payload) for one in value.deliveries)
        noun = "delivery was" if len(found) == 1 else "deliveries were"
        return Look(found, kept, f"{len(found):,} {noun} returned.")
    if value.version is None:
        return Look((), kept, "No version was returned: nothing is new.")
    compared = compare(mode, kept.get("version"), Watermark(value.version), context, noun="version")
    return Look(compared.found, {**kept, "version": compared.position}, compared.summary)


def user_position(stored: Json | None) -> Any:
    """Return what the function returned as its position last time; None if there is none."""
    return (stored or {}).get("position")
