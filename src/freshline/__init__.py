"""Freshline keeps data assets fresh.

Definitions in Python start here: `@asset` declares that a function produces an asset.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freshline.definitions.decorators import AssetFunction, asset
    from freshline.definitions.dsl import (
        accepted,
        automatic,
        between,
        cadence,
        cron,
        fresh_rows,
        holds,
        max_age,
        max_rows,
        min_rows,
        not_null,
        on_upstream_update,
        ttl,
        unique,
    )
    from freshline.definitions.schema.workflow import (
        AutoMaterialize,
        Check,
        Freshness,
        Retry,
        Source,
        Step,
        Table,
        Workflow,
    )
    from freshline.errors import FreshlineError

__version__ = "0.1.0"  # the only definition; `make dist`, `freshline --version`, the API and the docs use it

__all__ = [
    "AssetFunction",
    "AutoMaterialize",
    "Check",
    "FreshlineError",
    "Freshness",
    "Retry",
    "Source",
    "Step",
    "Table",
    "Workflow",
    "__version__",
    "accepted",
    "asset",
    "automatic",
    "between",
    "cadence",
    "cron",
    "fresh_rows",
    "holds",
    "max_age",
    "max_rows",
    "min_rows",
    "not_null",
    "on_upstream_update",
    "ttl",
    "unique",
]

_HOMES = ("decorators", "dsl", "schema.workflow")


def __getattr__(name: str) -> Any:
    # Every command and every runner imports this package, and most do not need the models behind these names.
    if name not in __all__:
        raise AttributeError(f"module 'freshline' has no attribute {name!r}")
    homes = [import_module(f"freshline.definitions.{home}") for home in _HOMES]
    return next(getattr(home, name) for home in [*homes, import_module("freshline.errors")] if hasattr(home, name))
