"""Commands that answer and end, on a real terminal: nothing internal is shown and everything can be read."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import AUTO, CLEAN, DAILY, NAMES, RAW, SLUGS, WORKFLOW, Deployment
from tests.terminal.harness import CTRL_C, LARGE, SMALL, Size, assert_readable

ANSWERS: dict[str, tuple[tuple[str, ...], str]] = {
    "status": (("status",), DAILY),
    "status of one": (("status", DAILY), "last success"),
    "why": (("why", DAILY, "--limit", "3"), "never produced"),
    "plan": (("plan", RAW), SLUGS[CLEAN]),
    "graph": (("graph",), "└── "),
    "runs": (("runs",), "succeeded"),
    "events": (("events",), "asset.produced"),
    "decisions": (("decisions",), "never produced"),
    "workers": (("workers",), "materializer"),
    "audit": (("audit",), "apply"),
    "show": (("show", RAW), "Johanna"),
    "show a payload": (("show", CLEAN), '"rows": 3'),
    "simulate": (("simulate", "--since", "1h"), "slot hours"),
    "doctor": (("doctor",), "checks"),
    "help": (("--help",), "Commands:"),
    "validate": (("validate",), "is valid"),
    "token": (("token", "list"), "freshline token create"),
    "webhook": (("webhook", "list"), "freshline webhook add"),
    "table": (("table", "versions", CLEAN), "VERSION"),
}
ADDED = "refresh-customer-orders-hourly"
COLOURED = ("status", "status of one", "why", "runs", "decisions", "graph", "workers")
GATE = ("status", "runs", "decisions", "show", "simulate", "graph")


def matrix() -> list[object]:
    """Every answer in every size, with and without colours; the gate has some of them in 80 columns."""
    return [
        pytest.param(
            name,
            size,
            colour,
            marks=[] if quick else pytest.mark.full,
            id=f"{name}-{size}-{'colour' if colour else 'plain'}",
        )
        for name in ANSWERS
        for size in (SMALL, LARGE)
        for colour in (True, False)
        for quick in [name in GATE and size == SMALL and colour]
    ]


@pytest.mark.process
@pytest.mark.parametrize(("name", "size", "colour"), matrix())
def test_an_answer_can_be_read(deployment: Deployment, name: str, size: Size, colour: bool) -> None:
    """No traceback, no object, no broken word, no squeezed column; colours only where they are wanted."""
    words, expected = ANSWERS[name]
    terminal = deployment.terminal(*words, size=size, colour=colour)
    assert terminal.end() in {0, 1}  # doctor's code says whether it found something
    assert expected in terminal.text
    assert_readable(terminal, NAMES)
    if name in COLOURED or not colour:
        assert (terminal.screen.colours() > {"default"}) == colour, terminal.screen.colours()


@pytest.mark.process
@pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.full)], ids=str)
def test_a_wider_terminal_shows_more_columns(deployment: Deployment, size: Size) -> None:
    """At 80 columns the least important ones are left out, and a line says which; at 160 all are there."""
    terminal = deployment.terminal("status", size=size)
    assert terminal.end() == 0
    assert ("not shown in 80 columns" in terminal.text) == (size == SMALL)
    (header,) = [line for line in terminal.text.split("\n") if line.startswith("ASSET")]
    assert ("DATA" in header) == (size == LARGE)


@pytest.mark.process
@pytest.mark.parametrize(("keys", "code", "answer"), [("n\n", 0, "nothing was changed"), (CTRL_C, 130, "Aborted")])
@pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.full)], ids=str)
def test_apply_asks(deployment: Deployment, size: Size, keys: str, code: int, answer: str) -> None:
    """The plan and the question can be read; `n` and Ctrl-C change nothing and end without a traceback."""
    added = deployment.project / "workflows" / "added.yaml"
    added.write_text(
        WORKFLOW.format(slug=ADDED, job="clean", source=RAW, target="warehouse.customer.orders.hourly", policy=AUTO)
    )
    try:
        terminal = deployment.terminal("apply", size=size)
        terminal.wait_for("Apply this? [y/N]:")
        terminal.send(keys)
        assert terminal.end(again=keys if keys == CTRL_C else "") == code
    finally:
        added.unlink()
    assert answer in terminal.text
    assert "^CAborted" not in terminal.text
    assert ADDED in terminal.text
    assert_readable(terminal, [*NAMES, ADDED])


@pytest.mark.process
@pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.full)], ids=str)
def test_errors_can_be_read(deployment: Deployment, size: Size) -> None:
    """A wrong option, an unknown name and errors in definitions are wrapped at spaces."""
    broken = deployment.project / "workflows" / "broken.yaml"
    broken.write_text("slug: broken\nsteps:\n  - id: one\n    typ: job\n    consumes: [ { assetId: Nope } ]\n")
    try:
        for words, expected, code in (
            (("runs", "--state", "finished-long-ago"), "is not one", 2),
            (("why", "warehouse.customer.orders.dayly"), "asset or workflow", 1),
            (("validate",), "broken.yaml", 1),
        ):
            terminal = deployment.terminal(*words, size=size)
            assert terminal.end() == code, terminal.text
            assert expected in terminal.text
            assert_readable(terminal, NAMES)
    finally:
        broken.unlink()
