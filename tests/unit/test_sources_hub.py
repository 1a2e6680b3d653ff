"""Datasets through the real `datasets` library: local ones, and a hub on the loopback."""

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit import task_folders
from trainer_bridge.sources import (
    Catalog,
    DatasetError,
    HubUnreachableError,
    NoTasksError,
    TaskSettings,
    read_catalog,
)

OPD = {"task": "Write f.", "test_code": "from solution import f\n"}
COMMIT, BLOB = "a" * 40, "b" * 40
READ = """\
from trainer_bridge.sources import SourceError, TaskSettings, read_catalog
for name in ("some/tasks", "some/gone"):
    try:
        catalog = read_catalog(TaskSettings(dataset=name, image="i", eval_split_ratio=0))
    except SourceError as error:
        print(type(error).__name__, error)
    else:
        print(*(task.name for task in catalog.train))
"""


@pytest.fixture(autouse=True, scope="module")
def _library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The library asks no hub here, and keeps its files to itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        importlib.import_module("datasets")
        yield


def read(dataset: Path | str, tmp_path: Path, **fields: Any) -> Catalog:
    given = {"eval_split_ratio": 0, "image": "i", "cache_dir": tmp_path / "cache", **fields}
    return read_catalog(TaskSettings(dataset=str(dataset), **given))


def names(catalog: Catalog) -> list[str]:
    return [task.name for task in catalog.train]


def lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def saved(path: Path, **splits: list[dict[str, Any]]) -> Path:
    datasets = importlib.import_module("datasets")
    made = {name: datasets.Dataset.from_list(rows) for name, rows in splits.items()}
    datasets.DatasetDict(made).save_to_disk(str(path))
    return path


def test_a_folder_of_data_files(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    lines(folder / "train.jsonl", OPD, {**OPD, "task_id": "known"}, {"task": "no tests"})
    lines(folder / "test.jsonl", OPD)
    catalog = read(folder, tmp_path)
    assert names(catalog) == ["known", "mine-0"]
    [unreadable] = catalog.unreadable
    assert unreadable.path == f"{folder}:2"
    assert unreadable.reason.startswith("no kind of row is known with the fields task; known are")
    assert names(read(folder, tmp_path, split="test")) == ["mine-0"]
    assert names(read(folder, tmp_path, limit=1)) == ["mine-0"]
    assert names(read(folder, tmp_path)) == names(catalog)


def test_a_single_file(tmp_path: Path) -> None:
    file = lines(tmp_path / "data" / "my rows.jsonl", OPD)
    lines(tmp_path / "data" / "other.jsonl", OPD, OPD)
    assert names(read(file, tmp_path)) == ["my rows-0"]


def test_what_save_to_disk_wrote(tmp_path: Path) -> None:
    folder = saved(tmp_path / "set", train=[OPD, OPD], test=[OPD])
    assert names(read(folder, tmp_path)) == ["set-0", "set-1"]
    assert names(read(folder, tmp_path, split="test")) == ["set-0"]
    assert names(read(folder / "train", tmp_path)) == ["train-0", "train-1"]
    with pytest.raises(DatasetError, match="there is no split dev, only train, test"):
        read(folder, tmp_path, split="dev")
    with pytest.raises(DatasetError, match="it was saved to disk and has no `subset`"):
        read(folder, tmp_path, subset="small")


def test_columns_that_other_rows_need_are_no_fields(tmp_path: Path) -> None:
    task_folders.write(
        tmp_path / "set" / "task_1",
        {"instruction.md": "Do it.", "test_final_state.py": "def test(): pass\n"},
    )
    endless = {"extra_info": {"task_dir": "/gone/task_1"}, "category": "logs"}
    file = lines(tmp_path / "set" / "rows.jsonl", {**OPD, "category": "text"}, endless)
    catalog = read(file, tmp_path)
    assert [(task.name, task.family) for task in catalog.train] == [
        ("rows-0", "text"),
        ("task_1", "logs"),
    ]


def test_ten_thousand_rows(tmp_path: Path) -> None:
    folder = saved(tmp_path / "set", train=[{**OPD, "task_id": n} for n in range(10_000)])
    assert len(read(folder, tmp_path).train) == 10_000


def test_an_empty_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="its files have no rows"):
        read(lines(tmp_path / "empty.jsonl"), tmp_path)
    with pytest.raises(DatasetError, match="its files have no rows"):
        read(saved(tmp_path / "set", train=[]), tmp_path)
    with pytest.raises(NoTasksError, match=r"rows.jsonl:0: no kind of row is known"):
        read(lines(tmp_path / "rows.jsonl", {"a": 1}), tmp_path)


@pytest.mark.parametrize(
    ("content", "fields", "why"),
    [
        ("{broken\n", {}, "DatasetGenerationError.*JSON"),
        ('{"a": 1}\n', {"split": "dev"}, r'Unknown split "dev"'),
        ('{"a": 1}\n', {"subset": "small"}, "BuilderConfig 'small' not found"),
        ('{"a": 1}\n', {"revision": "v1"}, "it is a local one and has no `revision`"),
    ],
)
def test_what_cannot_be_loaded(
    tmp_path: Path, content: str, fields: dict[str, Any], why: str
) -> None:
    file = tmp_path / "set" / "rows.jsonl"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(DatasetError, match=why) as caught:
        read(file, tmp_path, **fields)
    assert not isinstance(caught.value, HubUnreachableError)


def test_a_saved_dataset_that_lacks_a_file(tmp_path: Path) -> None:
    folder = saved(tmp_path / "set", train=[OPD])
    for file in (folder / "train").glob("*.arrow"):
        file.unlink()
    with pytest.raises(DatasetError, match="cannot be loaded: FileNotFoundError") as caught:
        read(folder, tmp_path)
    assert not isinstance(caught.value, HubUnreachableError)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no such file or folder, and it is no name"):
        read(tmp_path / "gone", tmp_path)


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DatasetError, match=r"pip install '\.\[bridge\]'"):
        read("some/tasks", tmp_path)


class Hub(BaseHTTPRequestHandler):
    """What the library asks of a hub that has one dataset; the first questions go wrong."""

    failures: list[tuple[str, int]]
    data = "".join(f"{json.dumps(OPD)}\n" for _ in range(2)).encode()

    def log_message(self, format: str, *values: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path
        if self.failures and path.startswith(self.failures[0][0]):
            self.answer(self.failures.pop(0)[1])
        elif path.startswith("/api/datasets/some/tasks/tree/") and "/data?" not in path:
            file = {"type": "file", "oid": BLOB, "size": len(self.data), "path": "train.jsonl"}
            self.answer(200, json.dumps([file]).encode())
        elif path == "/api/datasets/some/tasks" or "/revision/" in path:
            found = {"id": "some/tasks", "sha": COMMIT, "siblings": [{"rfilename": "train.jsonl"}]}
            self.answer(200, json.dumps(found).encode())
        elif path.endswith("train.jsonl"):
            self.answer(200, self.data, {"ETag": f'"{BLOB}"'})
        elif path.startswith(("/datasets/some/tasks/", "/api/datasets/some/tasks/")):
            self.answer(404, headers={"X-Error-Code": "EntryNotFound"})
        else:
            self.answer(404, headers={"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"X-Repo-Commit": COMMIT, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def hub(*failures: tuple[str, int]) -> Iterator[str]:
    """A hub that answers each first question that begins so with this status."""
    handler = type("OneHub", (Hub,), {"failures": list(failures)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def ask(url: str, home: Path, *, offline: bool = False) -> list[str]:
    """What a process of its own reads: the library looks at its environment only once."""
    env = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_ENDPOINT": url,
        "HF_HUB_OFFLINE": str(int(offline)),
        "HF_HUB_DISABLE_XET": "1",
    }
    command = [sys.executable, "-c", READ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


def test_datasets_of_a_hub_that_fails_at_first(tmp_path: Path) -> None:
    with hub(("/api/datasets/some/tasks", 500), ("/api/datasets/some/tasks/tree", 503)) as url:
        tasks, gone = ask(url, tmp_path)
    assert tasks == "tasks-0 tasks-1"
    assert gone.startswith("DatasetError dataset some/gone cannot be loaded: DatasetNotFoundError")
    tasks, gone = ask(url, tmp_path, offline=True)
    assert tasks == "tasks-0 tasks-1", "from the cache"
    assert gone.startswith("HubUnreachableError dataset some/gone cannot be loaded: ")
