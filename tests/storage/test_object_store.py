"""Object stores: missing support for conditional puts, lost replies, secrets in URLs."""

from __future__ import annotations

import pytest

from freshline.delta.log import DeltaLog
from freshline.errors import WarehouseError
from freshline.storage import layout, object_store
from freshline.storage.object_store import ObjectStorage, object_storage_at
from tests.object_store_server import SECRET, Answer, ObjectStore, Request

COMMIT = [{"commitInfo": {"operation": "WRITE"}}]


@pytest.fixture
def storage(objects: ObjectStore) -> ObjectStorage:
    """Return a new client."""
    return ObjectStorage(objects.address)


def test_a_store_that_does_not_know_the_condition_is_refused(objects: ObjectStore, storage: ObjectStorage) -> None:
    """It would silently overwrite a commit of another writer. Nothing is created there."""
    objects.honest = False
    with pytest.raises(WarehouseError, match=r"s3a://bucket/warehouse cannot be used: .*`If-None-Match: \*`"):
        layout.check_warehouse(storage, "ours")
    assert not storage.children("")


def test_a_commit_whose_answer_got_lost_is_ours(objects: ObjectStore, storage: ObjectStorage) -> None:
    """The client asks again and hears that there is one already: it is the one that it wrote."""
    lost = 0

    def fault(request: Request) -> Answer | None:
        nonlocal lost
        if request.method != "PUT" or lost:
            return None
        lost += 1
        objects.fault = lambda _request: None
        objects.answer(request)
        return Answer(500)

    objects.fault = fault
    DeltaLog(storage, "a").write(0, COMMIT)
    assert lost == 1
    assert DeltaLog(storage, "a").numbers() == [0]


def test_a_store_that_stutters_is_asked_again(objects: ObjectStore, storage: ObjectStorage) -> None:
    """A request that fails now and then is retried."""
    storage.create("a", b"1")
    answers = iter([Answer(503), Answer(500), None])
    objects.fault = lambda _request: next(answers)
    assert storage.read("a") == b"1"


@pytest.mark.parametrize("status", [403, pytest.param(500, marks=pytest.mark.full), 503])
def test_a_store_that_refuses_is_told_and_no_secret_with_it(objects: ObjectStore, status: int) -> None:
    """The error has the address and the reply; methods that do not raise return unknown."""
    objects.fault = lambda _request: Answer(status, b"<Error><Code>Because</Code><Message>of you</Message></Error>")
    storage = ObjectStorage(objects.address)
    with pytest.raises(WarehouseError, match=r"s3a://bucket/warehouse cannot be used: .* Because of you") as caught:
        layout.check_warehouse(storage, "ours", make=False)
    told = str(caught.value)
    assert SECRET not in told
    assert "\n" not in told
    assert not layout.is_ours(storage, "ours")
    assert storage.age("a") == 0.0, "nothing is removed for an age that is not known"
    storage.clear("a")


def test_what_is_behind_a_question_mark_is_not_told() -> None:
    """Azure's keys may be there."""
    said = object_store._sentence(OSError("GET https://a.example/c/x?sig=abc&sv=1 failed\n\nDebug source:\nHeaders {}"))
    assert said == "GET https://a.example/c/x?… failed"


def test_of_an_answer_only_its_code_and_message_are_told() -> None:
    """S3 repeats a token that it does not know."""
    answer = "<?xml?><Error><Code>InvalidToken</Code><Message>is invalid.</Message><Token-0>canary</Token-0></Error>"
    assert object_store._sentence(OSError(f"GET failed: {answer}")) == "GET failed: InvalidToken is invalid."


def test_a_bucket_of_others_is_not_written_to(objects: ObjectStore, storage: ObjectStorage) -> None:
    """Whose it is, is read before anything is tried (docs/semantics.md#R12.3)."""
    layout.check_warehouse(storage, "theirs")
    objects.seen.clear()
    with pytest.raises(WarehouseError, match="belongs to another database"):
        layout.check_warehouse(storage, "ours")
    assert [request.method for request in objects.seen] == ["GET"]


def test_directory_markers_are_not_files(objects: ObjectStore, storage: ObjectStorage) -> None:
    """Hadoop leaves empty objects where it made a directory."""
    storage.create("a/data/x/part-1.parquet", b"12345")
    storage.create("a/data/x/day=1", b"")
    assert storage.sizes("a/data/x") == {"a/data/x/part-1.parquet": 5}
    storage.clear("a/data/x")
    assert not [path for path in objects.warehouse.rglob("*") if path.is_file()], "but they go with the others"


def test_a_directory_is_deleted_with_few_requests(objects: ObjectStore, storage: ObjectStorage) -> None:
    """Not file by file."""
    for number in range(10):
        storage.create(f"a/data/x/{number}", b"1")
    objects.seen.clear()
    storage.clear("a/data/x")
    assert [request.method for request in objects.seen].count("POST") == 1
    assert not storage.sizes("")


def test_one_client_serves_a_process() -> None:
    """It keeps connections and credentials."""
    assert object_storage_at("s3a://one/place") is object_storage_at("s3a://one/place")


@pytest.mark.parametrize(
    "address",
    ["s3a://bucket/a/b", "s3://bucket", "gs://bucket/a", "abfss://container@account.dfs.core.windows.net/a"],
)
def test_every_kind_of_store_has_a_client(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked before something is read."""
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    storage = ObjectStorage(f"{address}/")
    assert (str(storage), storage.at("x/y")) == (address, f"{address}/x/y")
