"""The graph as a picture, over HTTP: places that change with the definitions, and states with their position."""

from __future__ import annotations

from tests.api.conftest import Api, serving
from tests.store_harness import Lab, workflow


def test_a_layout_has_every_asset_by_id_and_every_edge_by_number(shared: Api) -> None:
    """`a` is a source, `b` is made from it, `c` from `b`."""
    found = shared.get("/assets/graph/layout")
    assert found["nodes"] == [
        ["a", 0, 0, "source", None, 0],
        ["b", 1, 0, "asset", "b", 0],
        ["c", 2, 0, "asset", "c", 0],
    ]
    assert found["edges"] == [[0, 1, 1], [1, 2, 1]]
    assert (found["layers"], found["groups"]) == (3, [""])


def test_a_layout_is_sent_again_only_after_definitions_changed(api: Api) -> None:
    """A client that has it is told so; two processes have the same tag."""
    first = api.client.get("/assets/graph/layout")
    tag = {"If-None-Match": first.headers["ETag"]}
    assert api.client.get("/assets/graph/layout", headers=tag).status_code == 304
    with serving(api.lab) as other:
        assert other.client.get("/assets/graph/layout", headers=tag).status_code == 304
    api.lab.report("a", "2")
    api.lab.work()
    assert api.client.get("/assets/graph/layout", headers=tag).status_code == 304
    api.lab.apply(workflow("b", "a"), workflow("c", "b"), workflow("d", "a b", outputs=["shop.d", "shop.e"]))
    again = api.get("/assets/graph/layout", headers=tag)
    assert again["epoch"] == api.get("/assets/states")["epoch"] == first.json()["epoch"] + 1
    assert again["groups"] == ["", "shop"]
    assert [node[1:] for node in again["nodes"] if node[0] == "shop.d"] == [[2, 1, "asset", "d", 1]]


def test_a_forgotten_asset_is_not_drawn(lab: Lab) -> None:
    """The epoch stays when an asset is forgotten, and the cached layout does not."""
    picture = lab.store.reader.graph_view.picture
    lab.apply(workflow("b", "a"))
    assert [node[0] for node in picture()["nodes"]] == ["a", "b", "c"]
    lab.store.operations.forget("c")
    assert [node[0] for node in picture()["nodes"]] == ["a", "b"]
    assert [node[0] for node in picture()["nodes"]] == ["a", "b"]


def test_an_edge_that_may_not_trigger_and_one_to_itself(api: Api) -> None:
    """The first is marked, the second is left out."""
    own = workflow("d", [{"assetId": "b", "autoMaterialize": {"onUpstreamUpdate": False}}, "d"])
    api.lab.apply(workflow("b", "a"), workflow("c", "b"), own)
    found = api.get("/assets/graph/layout")
    names = [node[0] for node in found["nodes"]]
    assert [[names[one], names[other], yes] for one, other, yes in found["edges"]] == [
        ["a", "b", 1],
        ["b", "c", 1],
        ["b", "d", 0],
    ]


def test_states_are_those_of_the_status(api: Api) -> None:
    """Of all assets, or of the named ones; what does not exist is left out."""
    api.lab.report("a", "2")
    api.lab.settle()
    told = {one["assetId"]: one["state"] for one in api.get("/status")["assets"]}
    assert api.get("/assets/states")["states"] == told
    assert told["b"] == "waiting"
    assert api.get("/assets/states", asset=["b", "nowhere"])["states"] == {"b": "waiting"}
    assert api.get("/assets/states", asset="nowhere")["states"] == {}


def test_a_stream_from_the_position_of_the_states_misses_no_change(api: Api) -> None:
    """What happens after the states were read comes after their position."""
    stamp = api.lab.store.events.stamp_positions
    stamp(1000)
    before = api.get("/assets/states")
    api.lab.report("a", "2")
    api.lab.work()
    stamp(1000)
    later = [one["subject"] for one in api.get("/events", limit=100)["items"] if one["position"] > before["position"]]
    assert {"a", "b", "c"} <= set(later)
    after = api.get("/assets/states")
    assert after["position"] == max(one["position"] for one in api.get("/events", limit=1)["items"])


def test_too_many_names_are_an_error_that_says_how_many_are_allowed(shared: Api) -> None:
    """A request for all needs no names."""
    answer = shared.get("/assets/states", expect=422, asset=["b"] * 501)
    assert "500" in str(answer)
