"""`freshline db status` and `freshline db upgrade`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freshline.embedded_postgres import server as embedded
from tests.cli.conftest import Freshline


def test_status_and_upgrade_of_a_given_database(
    freshline: Freshline, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status says what is missing, upgrade does it, and again there is nothing to do."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", empty_database_url)
    before = freshline.json("db", "status")
    assert (before["embedded"], before["running"], before["schema"]["current"]) == (False, True, 0)
    assert "freshline db upgrade" in freshline("db", "status").stderr
    done = freshline.json("db", "upgrade")
    assert done["applied"]
    assert done["current"] == done["latest"]
    assert "nothing to do" in freshline("db", "upgrade").stderr
    assert "as this freshline needs it" in freshline("db", "status").stderr


def test_a_given_database_is_not_ours_to_stop(freshline: Freshline) -> None:
    """Refused as wrong usage."""
    assert "not ours to stop" in freshline("db", "stop", code=2).stderr


class TestEmbedded:
    """The project's embedded server."""

    @pytest.fixture(autouse=True)
    def _embedded(self, freshline: Freshline, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Unset the URL; stop a server that is left running."""
        monkeypatch.delenv("FRESHLINE_DATABASE_URL")
        yield
        embedded.stop(freshline.project / ".freshline")

    def test_it_starts_on_demand_and_is_upgraded_by_itself(self, freshline: Freshline) -> None:
        """Status starts nothing; the first command that needs the server starts it, and it ends with it."""
        assert "starts on demand" in freshline("db", "status").stderr
        assert freshline.json("db", "status")["running"] is False
        assert not (freshline.project / ".freshline").exists()
        assert freshline.json("status")["assets"] == []
        assert freshline.json("db", "status")["running"] is False

    def test_stop_ends_a_server_that_is_in_use(self, freshline: Freshline) -> None:
        """The server stops; again it was not running."""
        server = embedded.EmbeddedServer(freshline.project / ".freshline")
        server.acquire()
        found = freshline.json("db", "status")
        assert found["running"] is True
        assert found["pid"] > 0
        assert freshline.json("db", "stop") == {"stopped": True}
        assert "was not running" in freshline("db", "stop").stderr
        server.release()
