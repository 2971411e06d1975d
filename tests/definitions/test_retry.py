"""After which failures a step is tried again (docs/semantics.md#R7.5)."""

from __future__ import annotations

import json

import pytest

from freshline.definitions.retry import Failure, On, failure_named, failure_of


class FlakyError(ConnectionError):
    """An error of a library."""


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (KeyError("k"), True),
        (IndexError(), True),
        (TypeError(), True),
        (AttributeError(), True),
        (NameError(), True),
        (UnboundLocalError(), True),
        (ModuleNotFoundError(), True),
        (SyntaxError(), True),
        (ZeroDivisionError(), True),
        (AssertionError(), True),
        (NotImplementedError(), True),
        (RuntimeError(), False),
        (FlakyError(), False),
        (OSError(), False),
        (TimeoutError(), False),
        (MemoryError(), False),
        (json.JSONDecodeError("the answer of a server", "", 0), False),
    ],
    ids=lambda one: type(one).__name__,
)
def test_which_exceptions_are_permanent(error: Exception, permanent: bool) -> None:
    """Errors of the program are. What depends on the world around it is not."""
    assert failure_of(error).permanent is permanent
    if type(error).__module__ == "builtins":
        assert failure_named(type(error).__name__) == failure_of(error)


@pytest.mark.parametrize(
    ("on", "again"),
    [
        ("any", True),
        ("transient", True),
        (("FlakyError",), True),
        ((f"{__name__}.FlakyError",), True),
        (("OSError", "KeyError"), True),
        (("Exception",), True),
        (("Flaky",), False),
        (("elsewhere.FlakyError",), False),
        (("TimeoutError",), False),
    ],
)
def test_a_list_names_classes_and_their_subclasses(on: On, again: bool) -> None:
    """By the name alone, or with the module."""
    assert failure_of(FlakyError()).tried_again(on) is again


def test_what_is_asked_for_is_tried_again() -> None:
    """`any`, and a list that names it, also for a permanent error."""
    failure = failure_of(KeyError())
    assert [failure.tried_again(on) for on in ("transient", "any", ("KeyError",), ("LookupError",))] == [
        False,
        True,
        True,
        True,
    ]
    assert failure_named("lib.Odd") == Failure(("lib.Odd", "Odd"))
