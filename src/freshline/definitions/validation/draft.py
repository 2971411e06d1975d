"""A definition that is valid by itself, and its origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from freshline.definitions.schema.workflow import Source, Workflow
from freshline.definitions.validation.findings import Origin

Definition = TypeVar("Definition", Workflow, Source)


@dataclass(frozen=True, slots=True)
class Draft(Generic[Definition]):
    """A definition that is valid by itself, and its origin."""

    definition: Definition
    origin: Origin
