"""Object stores: a folder and a real S3 server, and all that can go wrong with them."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from episode_operator.results.blobs import BlobError
from episode_operator.results.objects import (
    ObjectMissing,
    ObjectStore,
    ObjectStoreError,
    StoreForbidden,
    StoreMissing,
    StoreUnreachable,
)
from tests.ports import free_port
from tests.stores.gateway import BUCKET, Gateway, cutting, variables

URL = f"s3://{BUCKET}/prefix"
LARGE = 5 << 20


@pytest.fixture
def s3(server: Gateway) -> Iterator[ObjectStore]:
    with variables(server.environment()):
        yield ObjectStore(URL)


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return ObjectStore(f"file://{tmp_path}")
    found: ObjectStore = request.getfixturevalue("s3")
    return found


@pytest.mark.parametrize("size", [0, 1, LARGE])
async def test_what_is_written_is_read(store: ObjectStore, size: int) -> None:
    data = os.urandom(size)
    uri = await store.write("namespace/result/tokens-0", data)
    assert uri == f"{store.url}/namespace/result/tokens-0"
    assert store.covers(uri)
    assert await store.read(uri, size=size) == data
    assert await ObjectStore.of(uri).read(uri, size=size) == data


async def test_the_same_object_again_is_one_object(server: Gateway, s3: ObjectStore) -> None:
    for _ in range(3):
        await s3.write("namespace/result/again", b"the same")
    files = [path for path in server.objects() if path.name == "again"]
    assert [path.read_bytes() for path in files] == [b"the same"]
    assert files[0] == server.folder / "prefix/namespace/result/again"


async def test_a_bucket_without_a_prefix(server: Gateway, s3: ObjectStore) -> None:
    uri = await ObjectStore(f"s3://{BUCKET}/").write("in-the-bucket", b"data")
    assert uri == f"s3://{BUCKET}/in-the-bucket"
    assert (server.folder / "in-the-bucket").read_bytes() == b"data"
    assert not s3.covers(uri)


async def test_an_object_that_is_not_there(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissing, match="never-written"):
        await store.read(f"{store.url}/namespace/never-written", size=1)


async def test_an_object_of_another_size(store: ObjectStore) -> None:
    uri = await store.write("namespace/result/size", b"four")
    for size in (0, 3, 5):
        with pytest.raises(BlobError, match=f"4 bytes, expected {size}"):
            await store.read(uri, size=size)


async def test_an_object_outside_of_the_store(store: ObjectStore) -> None:
    for uri in (f"{store.url}/../../etc/passwd", f"{store.url}-another/key", "file:///etc/passwd"):
        with pytest.raises(ObjectStoreError, match="is not in"):
            await store.read(uri, size=1)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "results",
        "s3:/results",
        "s3:///results",
        "gs://results",
        "file://folder",
        "s3://a b",
        "s3://a/../b",
    ],
)
def test_what_is_no_store(url: str) -> None:
    with pytest.raises(ObjectStoreError, match="file:///FOLDER nor s3://BUCKET/PREFIX"):
        ObjectStore(url)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="no such folder"):
        ObjectStore(f"file://{tmp_path}/none")


@pytest.mark.usefixtures("s3")
async def test_a_bucket_that_is_not_there() -> None:
    store = ObjectStore("s3://another-bucket/prefix")
    with pytest.raises(StoreMissing, match=r"another-bucket.*NoSuchBucket"):
        await store.write("key", b"data")
    with pytest.raises(StoreMissing, match=r"another-bucket.*NoSuchBucket"):
        await store.read(f"{store.url}/key", size=4)


async def test_a_wrong_secret(server: Gateway, s3: ObjectStore) -> None:
    uri = await s3.write("namespace/result/secret", b"data")
    with variables(server.environment(AWS_SECRET_ACCESS_KEY="wrong")):
        store = ObjectStore(URL)
    with pytest.raises(StoreForbidden, match=r"SignatureDoesNotMatch.*credentials"):
        await store.write("namespace/result/other", b"data")
    with pytest.raises(StoreForbidden, match="SignatureDoesNotMatch"):
        await store.read(uri, size=4)


async def test_a_wrong_access_key(server: Gateway) -> None:
    """This server answers 404 to it, which must not read as an object that is missing."""
    with variables(server.environment(AWS_ACCESS_KEY_ID="nobody")):
        store = ObjectStore(URL)
    with pytest.raises(ObjectStoreError, match="No user exists") as raised:
        await store.read(f"{URL}/key", size=4)
    assert not isinstance(raised.value, ObjectMissing | StoreMissing)


async def test_a_server_that_does_not_run(server: Gateway) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    with variables(server.environment(AWS_ENDPOINT_URL=endpoint)):
        store = ObjectStore(URL)
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="check the endpoint") as first:
        await store.write("key", b"data")
    assert time.monotonic() - started < 60
    with pytest.raises(StoreUnreachable) as second:
        await store.write("key", b"data")
    assert str(first.value) == str(second.value)  # a text that differs would be another event


@pytest.mark.parametrize("after", [0, 10_000, LARGE])
async def test_a_connection_that_drops_while_writing(server: Gateway, after: int) -> None:
    data = os.urandom(LARGE)
    async with cutting(server, after=after, connections=2) as cuts:
        store = ObjectStore(URL)
        uri = await store.write(f"namespace/result/dropped-{after}", data)
        assert cuts.made == 2
        assert await store.read(uri, size=LARGE) == data


@pytest.mark.parametrize("after", [0, 10_000, LARGE // 2])
async def test_a_connection_that_drops_while_reading(
    server: Gateway, s3: ObjectStore, after: int
) -> None:
    data = os.urandom(LARGE)
    uri = await s3.write("namespace/result/dropped", data)
    async with cutting(server, after=after, connections=2) as cuts:
        assert await ObjectStore(URL).read(uri, size=LARGE) == data
        assert cuts.made == 2


async def test_connections_that_all_drop(server: Gateway, s3: ObjectStore) -> None:
    """No half of an object is ever taken for one."""
    data = os.urandom(LARGE)
    uri = await s3.write("namespace/result/always", data)
    async with cutting(server, after=10_000, connections=1000):
        store = ObjectStore(URL)
        with pytest.raises(StoreUnreachable):
            await store.write("namespace/result/half", data)
        with pytest.raises(StoreUnreachable):
            await store.read(uri, size=LARGE)
    with pytest.raises(ObjectMissing):
        await s3.read(f"{URL}/namespace/result/half", size=LARGE)
