"""schemathesis over the whole OpenAPI document: no fault, and no answer but those that are described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import given as hypothesis_given
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import APIOperation, Case, GenerationMode

from freshline.api.app import document
from tests.api.conftest import WORLD, Api, serving
from tests.lab import laboratory

SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = [one.ok() for one in SCHEMA.get_all_operations()]
FEW, MANY = 4, 200
UNHURRIED: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def closed(module_database_url: str) -> Iterator[Api]:
    """The API where everybody needs a token, with one that may do everything."""
    with laboratory(module_database_url) as lab:
        lab.apply(*WORLD)
        lab.report("a", "1")
        lab.work()
        with serving(lab, auth="token") as api:
            api.client.headers.update(api.token("admin"))
            yield api


def probe(api: Api, operation: APIOperation, cases: int) -> None:
    """So many requests to one operation, right and wrong ones, each answer held against the document."""
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @settings(max_examples=cases, **UNHURRIED)
    @hypothesis_given(case=right | wrong)
    def ask(case: Case) -> None:
        check(api, case)

    ask()


def check(api: Api, case: Case) -> None:
    """Send it and validate the answer with every check that schemathesis has."""
    token = {"Authorization": api.client.headers["Authorization"]}
    case.call_and_validate(base_url=api.server.url, headers=token)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_every_operation_answers_as_described(closed: Api, operation: APIOperation) -> None:
    """A few requests each: a status, a type, headers and a body that the document names; wrong ones are refused."""
    probe(closed, operation, FEW)


@pytest.mark.full
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_every_operation_answers_many_requests_as_described(closed: Api, operation: APIOperation) -> None:
    """The same with 200 requests each."""
    probe(closed, operation, MANY)


def stateful(api: Api, cases: int) -> None:
    """Sequences of requests in which answers of some become parameters of others."""

    class Sequence(SCHEMA.as_state_machine()):  # type: ignore[misc] # a class that is made from the document
        def get_call_kwargs(self, case: Case) -> dict[str, Any]:  # noqa: ARG002 - its signature
            return {"base_url": api.server.url, "headers": {"Authorization": api.client.headers["Authorization"]}}

    run_state_machine_as_test(Sequence, settings=settings(max_examples=cases, stateful_step_count=8, **UNHURRIED))


def test_sequences_of_requests_are_answered_as_described(closed: Api) -> None:
    """Some."""
    stateful(closed, 5)


@pytest.mark.full
def test_many_sequences_of_requests_are_answered_as_described(closed: Api) -> None:
    """Many."""
    stateful(closed, MANY)
