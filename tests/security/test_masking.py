"""Credentials are hidden in every form in which logs and errors quote them."""

from __future__ import annotations

import json
import logging
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from freshline.cli import logging_setup
from freshline.credentials import own_credentials
from freshline.masking import Secrets
from freshline.settings import Settings, load

PASSWORD = "pä/ss w+rd:\"'%@1"  # noqa: S105 - nobody's
CASES = {
    "FRESHLINE_DATABASE_URL": f"postgresql://me:{quote(PASSWORD, safe='')}@db.example:5432/shop",
    "FRESHLINE_EVENT_BUS": f"rediss://:{quote(PASSWORD, safe='')}@redis.example/0",
    "FRESHLINE_SPARK_REMOTE": f"sc://spark.example/;token={quote(PASSWORD, safe='')}",
    "FRESHLINE_API_TOKEN": PASSWORD,
    "FRESHLINE_SPARK_TOKEN": PASSWORD,
    "PGPASSWORD": PASSWORD,
    "AWS_SECRET_ACCESS_KEY": PASSWORD,
    "AZURE_STORAGE_ACCOUNT_KEY": PASSWORD,
}


@pytest.mark.parametrize("name", CASES)
def test_each_credential_is_known_by_its_variable(name: str) -> None:
    """A password is hidden as it is, and as the address has it; so is the address."""
    hidden = Secrets(own_credentials({name: CASES[name]}))
    for text in (PASSWORD, quote(PASSWORD, safe=""), CASES[name], json.dumps(PASSWORD), repr(PASSWORD)):
        shown = hidden.hide(f"could not connect: {text} refused")
        assert PASSWORD not in shown
        assert "w%2Brd" not in shown
        assert "w+rd" not in shown


def test_a_keyword_string_has_a_password_too() -> None:
    """PostgreSQL also takes `name=value` pairs, with quotes, and passwords as options of an address."""
    for url in (
        "host=h password=sesame-1 dbname=d",
        "host=h password='sesame-1'",
        "postgresql://h/d?password=sesame-1",
    ):
        assert "sesame" not in Secrets(own_credentials({"FRESHLINE_DATABASE_URL": url})).hide("it was sesame-1")


def test_what_is_no_credential_is_shown() -> None:
    """An address without a password, and a password that is the name of its user, outside of the address."""
    assert (
        own_credentials({"FRESHLINE_DATABASE_URL": "postgresql://me@h/shop", "FRESHLINE_EVENT_BUS": "inline"}) == set()
    )
    weak = Secrets(own_credentials({"FRESHLINE_DATABASE_URL": "postgresql://freshline:freshline@h/d"}))
    assert weak.hide("freshline worker") == "freshline worker"
    assert weak.hide("at postgresql://freshline:freshline@h/other") == "at postgresql://freshline***h/other"


@given(
    secret=st.text(min_size=8, max_size=40).map(str.strip).filter(lambda text: len(text) >= 8 and text.isprintable())
)
def test_a_secret_inside_of_base64_is_hidden(secret: str) -> None:
    """Wherever it begins, as in the header of a request, with either alphabet."""
    hidden = Secrets([secret])
    for before in ("", "u", "us", "user:"):
        for encode in (b64encode, urlsafe_b64encode):
            encoded = encode(f"{before}{secret}".encode()).decode()
            shown = hidden.hide(encoded)
            assert "***" in shown
            assert len(shown) <= len("***") + 12


@pytest.mark.parametrize("form", ["console", "json"])
def test_process_logs_hide_them(form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In fields, in tracebacks, and in lines of other libraries."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", CASES["FRESHLINE_DATABASE_URL"])
    before = logging.getLogger().handlers[:]
    logging_setup.configure(Settings(project=Path(), log_format=form))
    try:
        try:
            int(CASES["FRESHLINE_DATABASE_URL"])
        except ValueError:
            structlog.get_logger("freshline.test").exception("failed", error=PASSWORD)
        logging.getLogger("library").error("cannot reach %s", PASSWORD)
    finally:
        logging.getLogger().handlers[:] = before
    said = capsys.readouterr().err
    assert "failed" in said
    assert "cannot reach ***" in said
    assert "w+rd" not in said
    assert "w%2Brd" not in said


def test_settings_add_what_is_not_in_the_environment() -> None:
    """A process may be given settings by its caller."""
    settings = load({"FRESHLINE_API_TOKEN": "token-of-the-caller"})
    assert own_credentials({}, settings) == {"token-of-the-caller"}
