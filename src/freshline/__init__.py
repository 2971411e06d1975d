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
    from freshline.definitions.partition_values import (
        affects,
        all_partitions,
        by_dimension,
        daily,
        dimensions,
        dynamic,
        hourly,
        keys,
        latest,
        minutely,
        monthly,
        overlap,
        pick,
        same,
        weekly,
        window,
        yearly,
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
    "affects",
    "all_partitions",
    "asset",
    "automatic",
    "between",
    "by_dimension",
    "cadence",
    "cron",
    "daily",
    "dimensions",
    "dynamic",
    "fresh_rows",
    "holds",
    "hourly",
    "keys",
    "latest",
    "max_age",
    "max_rows",
    "min_rows",
    "minutely",
    "monthly",
    "not_null",
    "on_upstream_update",
    "overlap",
    "pick",
    "same",
    "ttl",
    "unique",
    "weekly",
    "window",
    "yearly",
]

_HOMES = ("decorators", "dsl", "partition_values", "schema.workflow")


def __getattr__(name: str) -> Any:
    # Every command and every runner imports this package, and most do not need the models behind these names.
    if name not in __all__:
        raise AttributeError(f"module 'freshline' has no attribute {name!r}")
    homes = [import_module(f"freshline.definitions.{home}") for home in _HOMES]
    return next(getattr(home, name) for home in [*homes, import_module("freshline.errors")] if hasattr(home, name))
