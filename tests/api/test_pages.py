"""The two pages for a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from freshline import __version__
from freshline.api.pages import LINKS
from tests.api.conftest import Api, serving
from tests.store_harness import Lab

WORKER = "0198c000-0000-7000-8000-0000000000aa"


class Page(HTMLParser):
    """The tags of a page, and the addresses that it loads or links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href" and tag == "a"]
        self.loads += [value or "" for name, value in attrs if name == "src" or (name == "href" and tag != "a")]


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_loads_nothing_and_runs_nothing(api: Api, path: str) -> None:
    """No script, no other host; the policy of the browser allows one style and nothing else."""
    answer = api.client.get(api.server.url + path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    found = Page(answer.text)
    assert found.loads == []
    assert not found.tags & {"script", "iframe", "form", "img", "link", "object"}
    assert all(link.startswith("/") and not link.startswith("//") for link in found.links)
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        answer.headers["content-security-policy"],
    )


def test_the_first_page_says_what_is_running_and_its_links_answer(api: Api) -> None:
    """Every link works without a token on loopback."""
    api.lab.store.processes.register(WORKER, "worker", project="p", code_hash="x", info={})
    text = api.client.get(api.server.url).text
    assert __version__ in text
    assert "<td>worker</td>" in text
    assert Page(text).links == [path for path, _ in LINKS]
    for path, _ in LINKS:
        assert api.client.get(api.server.url + path).status_code == 200, path


def test_the_docs_have_every_operation(api: Api) -> None:
    """Each with its method, path and query parameters."""
    text = api.client.get(f"{api.server.url}/docs").text
    assert "`" not in text, "names are set as code"
    document = api.get("/openapi.json")
    assert text.count("<code>/api/v1") == sum(len(methods) for methods in document["paths"].values())
    assert "<code>/api/v1/assets/{assetId}/produced</code>" in text
    assert "<code>trigger</code>" in text


def test_where_a_token_is_needed_the_page_tells_nothing(lab: Lab) -> None:
    """The links are there; what is running is not."""
    lab.store.processes.register(WORKER, "worker", project="p", code_hash="x", info={})
    with serving(lab, auth="token") as api:
        text = api.client.get(api.server.url).text
        assert "Running" not in text
        assert "/docs" in text
    with serving(lab) as api:
        other = api.client.get(api.server.url, headers={"Host": "attacker.example"}).text
        assert "Running" not in other


def test_names_that_match_nothing_are_in_a_header(api: Api) -> None:
    """Event types, parameters of a run, and filters of a webhook; the answers stay as they are."""

    def warnings(method: str, path: str, **given: object) -> list[str]:
        answer = api.client.request(method, path, **given)  # type: ignore[arg-type]
        assert answer.status_code < 300, answer.text
        return answer.headers.get_list("Freshline-Warning")

    assert warnings("GET", "/events?type=asset") == []
    assert warnings("GET", "/events?type=aset") == ["no event has the type 'aset'; known are " + KNOWN]
    assert warnings("GET", "/feed?type=aset") == ["no event has the type 'aset'; known are " + KNOWN]
    assert warnings("POST", "/workflows/b/run", json={"parameters": {"dä\ny": 1}}) == [
        "workflow 'b' declares no parameter 'd?\\ny'; known are none"
    ]
    admin = api.token("admin")
    body = {"url": "https://hooks.example/x", "types": ["asset.prodused"], "assets": ["b", "z.*"]}
    assert warnings("POST", "/webhooks", json=body, headers=admin) == [
        "no event has the type 'asset.prodused'; did you mean 'asset.produced'?",
        "no asset matches 'z.*' now; known are a, b, c",
    ]


KNOWN = "asset.produced, asset.expired, asset.overdue, asset.recovered, asset.partition.retired, ..."


def test_a_pattern_selects_assets_and_one_that_matches_nothing_is_an_error(api: Api) -> None:
    """`status?name=` takes `*`, `?` and `[..]`."""
    found = api.get("/status", name="[bc]")
    assert [one["assetId"] for one in found["assets"]] == ["b", "c"]
    assert [one["slug"] for one in found["workflows"]] == ["b", "c"]
    assert "no asset matches 'x*'" in api.get("/status", name="x*", expect=404)["detail"]


def test_names_for_completion(api: Api) -> None:
    """Assets and workflows with a beginning, by name."""
    assert [(one["kind"], one["name"]) for one in api.get("/names", prefix="b")["items"]] == [
        ("asset", "b"),
        ("workflow", "b"),
    ]
    assert len(api.get("/names", limit=2)["items"]) == 2
    assert api.get("/names", prefix="x")["items"] == []


def test_log_lines_by_tail_and_period(api: Api) -> None:
    """The last lines, in order."""
    run = str(api.lab.runs("b")[0]["id"])
    api.lab.rows(
        "INSERT INTO run_logs SELECT %s, n, 1, 'one', freshline_now(), 'stdout', n FROM generate_series(1, 5) n "
        "RETURNING line",
        run,
    )
    assert [one["line"] for one in api.get(f"/runs/{run}/logs", tail=2)["items"]] == [4, 5]
    assert api.get(f"/runs/{run}/logs", until="2020-01-01T00:00:00Z")["items"] == []
