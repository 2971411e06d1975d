"""docs/cli.md is generated from the commands."""

from __future__ import annotations

from pathlib import Path

from freshline.cli.main import COMMANDS
from freshline.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_what_the_help_says() -> None:
    """`python -m freshline.cli.reference > docs/cli.md` was run after the last change of a help text."""
    assert PAGE.read_text() == reference()


def test_every_command_is_on_the_page() -> None:
    """Also the parts of `db`, `token` and `webhook`."""
    text = PAGE.read_text()
    parts = [
        "db upgrade",
        "db status",
        "db stop",
        "db restored",
        "token create",
        "token list",
        "token revoke",
        "webhook add",
    ]
    parts += [f"webhook {name}" for name in ("list", "deliveries", "redeliver", "pause", "resume", "remove", "test")]
    for name in [*COMMANDS, *parts]:
        assert f"## freshline {name}\n" in text
