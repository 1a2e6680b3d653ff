"""Datasets: rows through the `datasets` library, from the Hugging Face Hub or a local folder.

The library is an extra of the package and is imported only here, when it is needed.
"""

import importlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import stamina

from trainer_bridge.sources import rows
from trainer_bridge.sources.collect import collect
from trainer_bridge.sources.errors import DatasetError, HubUnreachableError, Unreadable
from trainer_bridge.sources.settings import TaskSettings
from trainer_bridge.sources.task import Options, Task

_ATTEMPTS = 3
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_SAVED = ("state.json", "dataset_dict.json")
"""One of them is in what `save_to_disk` wrote."""
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


def load(dataset: str, settings: TaskSettings, options: Options) -> list[Task | Unreadable]:
    """Every row of the dataset as a task; the reason instead where it cannot be read.

    Raises:
        HubUnreachableError: the hub does not answer, and the dataset is not in the cache.
        DatasetError: it cannot be loaded as the settings ask.
    """
    path = Path(dataset).expanduser().absolute()
    if path.exists():
        folder, source = (path, path.name) if path.is_dir() else (path.parent, path.stem)
        loaded = partial(_from_disk, path)
    elif _HUB_NAME.fullmatch(dataset):
        folder, source = Path(), path.name
        loaded = partial(_from_hub, dataset)
    else:
        raise DatasetError(
            f"dataset {dataset}: there is no such file or folder, and it is no name on the hub"
        )
    found = rows.places(
        enumerate(_rows(loaded, settings)),
        origin=dataset,
        source=source,
        base=settings.tasks_base_dir or folder,
        options=options,
    )
    return collect(found)


def _rows(load: Callable[[Any, TaskSettings], Any], settings: TaskSettings) -> list[Any]:
    library = _library()
    try:
        loaded = load(library, settings)
        count = loaded.num_rows if settings.limit is None else min(settings.limit, loaded.num_rows)
        return list(loaded.select(range(count)))
    except DatasetError:
        raise
    except (StopIteration, IndexError) as error:  # of `datasets`, where there is no first row
        raise DatasetError(f"dataset {settings.dataset}: its files have no rows") from error
    except Exception as error:  # of `datasets`, of Arrow, of the hub's client, of Python
        raise DatasetError(_told(settings, error)) from error


def _library() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError as error:
        raise DatasetError(
            "a dataset needs the `datasets` library: pip install '.[bridge]' in the repository "
            f"({error})"
        ) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _unreachable(error: Exception) -> bool:
    """Whether the hub did not answer, or not now."""
    if type(error) is FileNotFoundError:  # what `datasets` makes of a hub that it cannot ask
        return True
    http = importlib.import_module("huggingface_hub.errors").HTTPError
    for each in _causes(error):
        status = getattr(getattr(each, "response", None), "status_code", None)
        if status is not None:
            return bool(status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR)
        if isinstance(each, (ConnectionError, TimeoutError, http)):
            return True
    return False


def _told(settings: TaskSettings, error: Exception) -> str:
    told = "; ".join(f"{type(each).__name__}: {each}" for each in _causes(error))
    return f"dataset {settings.dataset} cannot be loaded: {' '.join(told.split())}"


def _from_hub(name: str, library: Any, settings: TaskSettings) -> Any:
    try:
        return _download(name, library, settings)
    except Exception as error:
        if _unreachable(error):
            raise HubUnreachableError(
                f"{_told(settings, error)}; try again later, or name a local copy"
            ) from error
        raise


@stamina.retry(on=_unreachable, attempts=_ATTEMPTS)
def _download(name: str, library: Any, settings: TaskSettings) -> Any:
    """The library's own requests are tried again, but not all of them."""
    return library.load_dataset(
        name,
        settings.subset,
        split=settings.split,
        revision=settings.revision,
        cache_dir=None if settings.cache_dir is None else str(settings.cache_dir),
    )


def _from_disk(path: Path, library: Any, settings: TaskSettings) -> Any:
    if settings.revision is not None:
        raise DatasetError(f"dataset {path}: it is a local one and has no `revision`")
    if any((path / name).exists() for name in _SAVED):
        return _saved(path, library, settings)
    folder, files = (path, None) if path.is_dir() else (path.parent, path.name)
    return library.load_dataset(
        str(folder),
        settings.subset,
        data_files=files,
        split=settings.split,
        cache_dir=None if settings.cache_dir is None else str(settings.cache_dir),
    )


def _saved(path: Path, library: Any, settings: TaskSettings) -> Any:
    """A split of what `save_to_disk` wrote; a single one counts as train if it has no name."""
    if settings.subset is not None:
        raise DatasetError(f"dataset {path}: it was saved to disk and has no `subset`")
    saved = library.load_from_disk(str(path))
    splits = saved if isinstance(saved, dict) else {str(saved.split or "train"): saved}
    if settings.split not in splits:
        raise DatasetError(
            f"dataset {path}: there is no split {settings.split}, only {', '.join(splits)}"
        )
    return splits[settings.split]
