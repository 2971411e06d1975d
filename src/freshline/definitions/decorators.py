"""The decorator `@asset` for definitions in Python. `dsl` has the values of its arguments.

A decorated function stays a plain function. While a project is loaded, decorated functions are collected. Otherwise,
as in a runner, the decorator only attaches `__freshline__`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from freshline.definitions import names
from freshline.definitions.schema.partitioning import Partitioning
from freshline.definitions.schema.workflow import AutoMaterialize, Check, Freshness, Retry, Spark, Step, Table
from freshline.definitions.steps import view_name
from freshline.errors import DefinitionError, Place
from freshline.model.json import Json

Function = TypeVar("Function", bound=Callable[..., Any])
Block = Mapping[str, Any]  # a block of a definition, as YAML would give it
CONTEXT = "ctx"
_registry: ContextVar[list[AssetFunction] | None] = ContextVar("freshline_assets", default=None)


@dataclass(frozen=True)
class AssetFunction:
    """The declaration of a decorated function.

    `inputs`: the asset ids of explicitly named inputs, by parameter. `blocks`: their `consumes` blocks.
    `definition`: the workflow as plain data, without `consumes`: parameters are resolved when all assets are known.
    """

    asset_id: str
    function: Callable[..., Any]
    place: Place
    inputs: Mapping[str, str]
    definition: Block
    blocks: Block = field(default_factory=dict)

    @property
    def entrypoint(self) -> str:
        """The entry point by which a runner finds the function."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """The parameters of the function."""
        return tuple(inspect.signature(self.function).parameters.values())

    def arguments(self, step: Step, parameters: Block, read: Callable[[str], Any], ctx: Any) -> Json:
        """Return the arguments of a call: `ctx`, inputs by `read(asset_id)`, and the run's parameters by name."""
        assets = {view_name(item): item.asset_id for item in step.consumes}
        found: Json = {}
        for parameter in self.parameters:
            if parameter.name == CONTEXT:
                found[CONTEXT] = ctx
            elif parameter.name in assets:
                found[parameter.name] = read(assets[parameter.name])
            elif parameter.name in parameters:
                found[parameter.name] = parameters[parameter.name]
        return found


def asset(
    asset_id: str,
    *,
    kind: Literal["spark.python", "python"] = "spark.python",
    inputs: Mapping[str, str | Block] | None = None,
    freshness: Freshness | Block | None = None,
    auto: AutoMaterialize | Block | bool | None = None,
    checks: Sequence[Check | Block] = (),
    schema: Block | None = None,
    schema_change: Literal["evolve", "strict"] | None = None,
    table: Table | Block | None = None,
    data_version: Block | None = None,
    optional: bool | None = None,
    partitioning: Partitioning | Block | None = None,
    retain: str | None = None,
    frozen_after: str | None = None,
    batch: bool | None = None,
    parameters: Block | None = None,
    retry: Retry | Block | int | None = None,
    timeout: str | None = None,
    slug: str | None = None,
    description: str | None = None,
    backoff: Block | None = None,
    quiet_hours: Sequence[Block] | None = None,
    secrets: Sequence[str] | None = None,
    publish_parameters: bool | None = None,
    spark: Spark | Block | None = None,
) -> Callable[[Function], Function]:
    """Declare that a function produces an asset: a workflow with one step.

    A parameter of the function names an asset that it reads (`flights_clean` is `flights.clean`), unless `inputs` maps
    it to another one. `ctx` is the context of the job. Names in `parameters` are parameters of the run. The return
    value is the data of the asset.
    """
    produces = {
        "assetId": asset_id,
        "freshness": freshness,
        "autoMaterialize": {"enabled": auto} if isinstance(auto, bool) else auto,
        "checks": list(checks) or None,
        "schema": schema,
        "schemaChange": schema_change,
        "table": table,
        "dataVersion": data_version,
        "optional": optional,
        "partitioning": partitioning,
        "retain": retain,
        "frozenAfter": frozen_after,
    }
    workflow = {
        "slug": slug or (names.slug_of(asset_id) if isinstance(asset_id, str) else asset_id),
        "description": description,
        "parameters": parameters,
        "backoff": backoff,
        "quietHours": quiet_hours,
        "secrets": secrets,
        "publishParameters": publish_parameters,
        "spark": spark,
    }
    step = {
        "retry": {"maxAttempts": retry} if isinstance(retry, int) else retry,
        "timeout": timeout,
        "batch": batch,
        "job": {"kind": kind},
        "produces": [_given_fields(produces)],
    }

    def declare(function: Function) -> Function:
        if inspect.iscoroutinefunction(function) or not inspect.isfunction(function):
            raise DefinitionError(f"asset {asset_id!r}: @asset takes a plain function")
        named, blocks = _inputs(inputs or {})
        definition = {**_given_fields(workflow), "steps": [{"id": function.__name__, **_given_fields(step)}]}
        declared = AssetFunction(asset_id, function, _place(function), named, definition, blocks)
        _check_signature(declared)
        function.__freshline__ = declared  # type: ignore[attr-defined]
        registry = _registry.get()
        if registry is not None:
            registry.append(declared)
        return function

    return declare


@contextmanager
def collecting() -> Iterator[list[AssetFunction]]:
    """Collect the functions that are decorated inside the block, in order."""
    found: list[AssetFunction] = []
    token = _registry.set(found)
    try:
        yield found
    finally:
        _registry.reset(token)


def _inputs(given: Mapping[str, str | Block]) -> tuple[dict[str, str], Json]:
    """Return asset ids by parameter, and the `consumes` blocks of inputs that are more than an id."""
    blocks = {name: _plain(value) for name, value in given.items() if isinstance(value, Mapping)}
    assets = {name: value if isinstance(value, str) else value.get("assetId", "") for name, value in given.items()}
    return assets, blocks


def _check_signature(declared: AssetFunction) -> None:
    function = declared.function
    if function.__qualname__ != function.__name__:
        message = f"{function.__qualname__!r} is inside another function or class; a runner cannot find it there"
        raise DefinitionError(
            f"asset {declared.asset_id!r}: {message}; move it to the module's top", place=declared.place
        )
    for parameter in declared.parameters:
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            message = f"parameter '{parameter}' cannot name an asset; allowed are plain and keyword-only parameters"
            raise DefinitionError(f"asset {declared.asset_id!r}: {message}", place=declared.place)
    unused = sorted(set(declared.inputs) - {parameter.name for parameter in declared.parameters})
    if unused and CONTEXT not in {parameter.name for parameter in declared.parameters}:
        message = f"'inputs' names {unused[0]!r}, which is not a parameter of {function.__name__}()"
        raise DefinitionError(f"asset {declared.asset_id!r}: {message}", place=declared.place)


def _place(function: FunctionType) -> Place:
    return Place(function.__code__.co_filename, function.__code__.co_firstlineno)


def _given_fields(block: Block) -> Json:
    """Return the given fields as plain data, as YAML would give them."""
    return {key: _plain(value) for key, value in block.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
