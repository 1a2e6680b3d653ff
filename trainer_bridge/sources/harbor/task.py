"""A task folder of Harbor or Terminal-Bench 2."""

from dataclasses import dataclass
from pathlib import Path

from episode_operator.api.agent import Agent, Model
from trainer_bridge.sources.archives import Packer
from trainer_bridge.sources.errors import Unreadable, UnusableError
from trainer_bridge.sources.harbor.episode import EpisodeFields
from trainer_bridge.sources.harbor.fits import reason_against
from trainer_bridge.sources.harbor.folder import TaskFolder
from trainer_bridge.sources.harbor.reading import Reading, read
from trainer_bridge.sources.task import Build, Options, episode_spec

CONFIG = "task.toml"
FAMILY = "harbor"

_UNREADABLE = (UnusableError, OSError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A readable task; its tests, solution and other files are read when an Episode is built."""

    folder: TaskFolder
    name: str
    notes: tuple[str, ...]
    reading: Reading
    image: str
    options: Options

    @property
    def family(self) -> str:
        """The category in the task's metadata, else the name of the folder it is in."""
        return self.reading.category or self.folder.path.resolve().parent.name or FAMILY

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        """An Episode of the task; see `Task.build`."""
        packer = Packer(prefix)
        fields = EpisodeFields(self.folder, self.reading, self.options.environ, agent, packer)
        try:
            spec = fields.spec(self.image)
        except _UNREADABLE as error:
            raise Unreadable(self.folder.path, str(error)) from error
        return Build(episode_spec(self.folder.path, {**spec, "model": model}), packer.parts)


def read_task(folder: Path, options: Options) -> HarborTask:
    """The task in a folder.

    Raises:
        Unreadable: it cannot be read, or asks for what an Episode cannot give.
    """
    files = TaskFolder(folder)
    try:
        reading = read((folder / CONFIG).read_text(), options.environ)
        if (reason := reason_against(reading, folder)) is not None:
            raise UnusableError(reason)
        for step in reading.steps:
            files.instruction(step.name)
            files.test_script(step.name)
    except _UNREADABLE as error:
        raise Unreadable(folder, str(error)) from error
    name = reading.name or folder.resolve().name
    image = options.image_of(name, reading.version or "latest") or reading.environment.docker_image
    if image is None:
        raise Unreadable(
            folder,
            "no image: task.toml has no environment.docker_image; build environment/Dockerfile, "
            "push it, and name it with `image` or --image, such as "
            "registry.example.com/{name}:{tag}",
        )
    return HarborTask(files, name, _notes(reading), reading, image, options)


def _notes(reading: Reading) -> tuple[str, ...]:
    artifacts = {one.source: one for step in reading.steps for one in step.artifacts}
    return (
        *(f"task.toml: {key} is not known and has no effect" for key in reading.unknown),
        *(
            f"artifact {one.source} is kept under its path, not as {one.destination}"
            for one in artifacts.values()
            if one.destination
        ),
    )
