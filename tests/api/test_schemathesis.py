"""schemathesis over the whole OpenAPI document: no server error, and only documented answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import given as hypothesis_given
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from freshline.api.app import document
from tests.api.conftest import WORKFLOWS, Api, serving
from tests.api.documents import operations
from tests.store_harness import laboratory

SCHEMA = schemathesis.openapi.from_dict(document())
# In the document a cursor or a name is any text; the server looks it up and may find that it is not a valid id.
SCHEMA.config.generation.with_security_parameters = False  # every request has a token; `ignored_auth` removes it
ACCEPTANCE = SCHEMA.config.checks.positive_data_acceptance
ACCEPTANCE.expected_statuses = [*ACCEPTANCE.expected_statuses, "400", "422"]
OPERATIONS = [one.ok() for one in SCHEMA.get_all_operations() if isinstance(one, Ok)]
FEW, MANY = 4, 200
UNHURRIED: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def closed(module_database_url: str) -> Iterator[Api]:
    """Yield an API where every request needs a token, and a client with an admin token."""
    with laboratory(module_database_url) as lab, pytest.MonkeyPatch.context() as environment:
        environment.setenv("NO_PROXY", "127.0.0.1")
        lab.apply(*WORKFLOWS)
        lab.report("a", "1")
        lab.work()
        with serving(lab, auth="token") as api:
            api.client.headers.update(api.token("admin"))
            yield api


def probe(api: Api, operation: Any, cases: int) -> None:
    """Send this number of valid and invalid requests to one operation, and check each answer against the document."""
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    sent: list[Any] = []

    @settings(max_examples=cases, **UNHURRIED)
    @hypothesis_given(case=right | wrong)
    def ask(case: Any) -> None:
        sent.append(case)
        check(api, case)

    ask()
    for _ in range(len(sent), cases):  # without anything to vary, repeat the last one
        check(api, sent[-1])


def check(api: Api, case: Any) -> None:
    """Send it and validate the answer with all checks of schemathesis."""
    token = {"Authorization": api.client.headers["Authorization"]}
    case.call_and_validate(base_url=api.server.url, headers=token)


def test_every_operation_is_understood() -> None:
    """None is left out because its description cannot be read."""
    assert len(OPERATIONS) == len(operations(document()))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_every_operation_answers_as_described(closed: Api, operation: Any) -> None:
    """A few requests each: a status, a type, headers and a body that the document names; wrong ones are refused."""
    probe(closed, operation, FEW)


@pytest.mark.full
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_every_operation_answers_many_requests_as_described(closed: Api, operation: Any) -> None:
    """The same with 200 requests each."""
    probe(closed, operation, MANY)


def stateful(api: Api, cases: int) -> None:
    """Run sequences of requests in which answers become parameters of later requests."""

    class Sequence(SCHEMA.as_state_machine()):  # type: ignore[misc] # a class that is made from the document
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:  # noqa: ARG002 - its signature
            return {"base_url": api.server.url, "headers": {"Authorization": api.client.headers["Authorization"]}}

    run_state_machine_as_test(Sequence, settings=settings(max_examples=cases, stateful_step_count=8, **UNHURRIED))


def test_sequences_of_requests_are_answered_as_described(closed: Api) -> None:
    """Some."""
    stateful(closed, 5)


@pytest.mark.full
def test_many_sequences_of_requests_are_answered_as_described(closed: Api) -> None:
    """Many."""
    stateful(closed, MANY)
