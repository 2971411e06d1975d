"""The inbox consumer makes progress, whatever a batch of events does."""

from __future__ import annotations

from contextlib import suppress

import psycopg

from freshline.services.inbox_consumer import InboxConsumer
from tests.store_harness import Lab, workflow

FUNCTION = """
CREATE FUNCTION too_much() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT count(*) FROM noted) > 3 THEN RAISE 'too much' USING ERRCODE = 'query_canceled'; END IF; RETURN NULL;
END $$
"""
TRIGGER = """
CREATE TRIGGER too_much AFTER INSERT ON considerations REFERENCING NEW TABLE AS noted
    FOR EACH STATEMENT EXECUTE FUNCTION too_much()
"""


def test_a_batch_that_takes_too_long_is_halved(lab: Lab) -> None:
    """Events are consumed in smaller batches when a large one fails, and none is lost (docs/semantics.md#R11.3)."""
    lab.apply(*(workflow(f"w{number}", f"s{number}") for number in range(40)))
    lab.settle()
    lab.rows("DELETE FROM considerations RETURNING 1")
    with lab.database.connection() as connection:
        connection.execute(FUNCTION)
        connection.execute(TRIGGER)
    for number in range(40):
        lab.report(f"s{number}")
    consumer = InboxConsumer(lab.store)
    for _ in range(60):
        with suppress(psycopg.errors.QueryCanceled):
            consumer.run_once()
    assert lab.one("SELECT count(*) FROM inbox") == 0
    assert lab.one("SELECT count(*) FROM considerations") == 40
