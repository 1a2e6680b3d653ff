"""Object stores for blobs that are too large for an EpisodeResult: a folder, or S3 and its like.

Credentials and endpoint of S3 come from the usual AWS_* variables. Requests are retried a few
times; what then fails is an ObjectStoreError that says which store, why, and what to do.
"""

import os
import re
from datetime import timedelta

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, S3Store

from episode_operator.results.blobs import BlobError

_URL = re.compile(r"(?P<scheme>file|s3)://(?P<path>[A-Za-z0-9._/-]+)")
_CODE = re.compile(r"<Code>(\w+)</Code>(?:<Message>(.*?)</Message>)?", re.DOTALL)
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class ObjectStoreError(Exception):
    """The store did not do what was asked of it."""


class StoreUnreachable(ObjectStoreError):
    """No answer from the store, or one that says that it fails."""


class StoreForbidden(ObjectStoreError):
    """The store does not accept the credentials, or they do not suffice."""


class StoreMissing(ObjectStoreError):
    """There is no such bucket or folder."""


class ObjectMissing(ObjectStoreError):
    """The store has no such object."""


class ObjectStore:
    """Objects below one URL: `file:///folder` or `s3://bucket/prefix`; safe for concurrent use."""

    def __init__(self, url: str) -> None:
        """Raise ObjectStoreError if the URL is none, StoreMissing if there is no such folder."""
        matched = _URL.fullmatch(url)
        rooted = matched is not None and matched["path"].startswith("/")
        if matched is None or ".." in url or rooted != (matched["scheme"] == "file"):
            raise ObjectStoreError(f"{url!r} is neither file:///FOLDER nor s3://BUCKET/PREFIX")
        self.url = url.rstrip("/")
        self._store = _open(self.url, matched["scheme"], matched["path"].rstrip("/"))

    @classmethod
    def of(cls, uri: str) -> "ObjectStore":
        """A store that has the object of this URI, with the credentials of the environment."""
        return cls(uri.rpartition("/")[0])

    def covers(self, uri: str) -> bool:
        """Whether the object is below this store's URL."""
        return uri.startswith(f"{self.url}/") and ".." not in uri

    async def write(self, key: str, data: bytes) -> str:
        """Write an object as a whole; its URI.

        Raises:
            StoreUnreachable, StoreForbidden, StoreMissing, ObjectStoreError: it is not written.
        """
        try:
            # One request, so that a crash leaves no parts of an upload in the bucket.
            await obstore.put_async(self._store, key, data, use_multipart=False)
        except (BaseError, OSError) as error:
            raise _typed(error, f"{self.url}/{key}") from error
        return f"{self.url}/{key}"

    async def read(self, uri: str, *, size: int) -> bytes:
        """The bytes of an object below this store's URL.

        Raises:
            BlobError: it does not have `size` bytes.
            ObjectMissing: it was deleted, or never there.
            StoreUnreachable, StoreForbidden, StoreMissing, ObjectStoreError: it cannot be read.
        """
        if not self.covers(uri):
            raise ObjectStoreError(f"{uri} is not in {self.url}")
        key = uri.removeprefix(f"{self.url}/")
        try:
            got = await obstore.get_async(self._store, key)
            if got.meta["size"] != size:
                raise BlobError(f"{uri}: {got.meta['size']} bytes, expected {size}")
            return bytes(await got.bytes_async())
        except (BaseError, OSError) as error:
            raise _typed(error, uri) from error


def _open(url: str, scheme: str, path: str) -> LocalStore | S3Store:
    if scheme == "file":
        try:
            return LocalStore(path or "/")
        except BaseError as error:
            raise StoreMissing(f"{url}: there is no such folder here") from error
    bucket, _, prefix = path.partition("/")
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    return S3Store(
        bucket,
        prefix=prefix or None,
        client_options={
            "timeout": timedelta(seconds=60),
            "connect_timeout": timedelta(seconds=5),
            "allow_http": endpoint.startswith("http://"),
        },
        retry_config={
            "max_retries": 4,
            "backoff": {
                "init_backoff": timedelta(seconds=0.2),
                "max_backoff": timedelta(seconds=5),
            },
            "retry_timeout": timedelta(seconds=60),
        },
    )


def _typed(error: Exception, uri: str) -> ObjectStoreError:
    """The error without what differs from try to try, and with what to do."""
    first = str(error).partition("\n\nDebug source")[0]
    answered = _CODE.search(first)
    code = answered[1] if answered else None
    said = f"{code}: {answered[2]}" if answered else first.rpartition(" - ")[2]
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or "os error 13" in first:
        return StoreForbidden(f"{uri}: {said}; check the credentials and what they may do")
    if code == "NoSuchBucket":
        return StoreMissing(f"{uri}: {said}; create it, or correct EPISODE_OBJECT_STORE")
    if isinstance(error, FileNotFoundError) and code in (None, "NoSuchKey"):
        return ObjectMissing(f"{uri}: {said}; it was deleted, or is in another store")
    if "HTTP error" in first or first.partition("status code: ")[2][:1] == "5":
        return StoreUnreachable(f"{uri}: {said}; check the endpoint and that the store runs")
    return ObjectStoreError(f"{uri}: {said}")
