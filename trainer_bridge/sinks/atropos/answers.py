"""What an Atropos server answers, as far as it is used."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainer_bridge.sinks.base import SinkError

Model = TypeVar("Model", bound=BaseModel)


class Answer(BaseModel):
    """An object of which some fields are used."""

    model_config = ConfigDict(frozen=True, strict=True)


class Info(Answer):
    """Of `/info`; both are -1 before a trainer has registered."""

    batch_size: int = Field(description="Sequences in a batch.")
    max_token_len: int = Field(description="Most tokens of a sequence.")

    @property
    def known(self) -> bool:
        """Whether a trainer has registered."""
        return self.batch_size > 0


class Registered(Answer):
    """Of `/register-env`, once a trainer has asked for a batch."""

    env_id: int = Field(ge=0)
    wandb_name: str = Field(
        pattern=r"_[0-9]+$",
        description="The name asked for, _, and how often it had been registered before.",
    )
    starting_step: int = Field(description="The trainer's current step.")
    num_steps: int = Field(description="Steps that it takes; none are told by 0 or less.")

    @property
    def number(self) -> int:
        """How often the name had been registered before."""
        return int(self.wandb_name.rpartition("_")[2])


class Standing(Answer):
    """Of `/status-env`; the queue is counted in groups of the environment that asks."""

    current_step: int
    queue_size: int = Field(ge=0, description="Groups that wait, of all environments.")
    self_queue_size: int = Field(ge=0, description="Groups of this environment among them.")


def read(model: type[Model], path: str, answer: dict[str, Any]) -> Model:
    """The answer as a model.

    Raises:
        SinkError: it is another one.
    """
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        said = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise SinkError(
            f"{path} answered what Atropos 0.4 does not ({said}); check the URL"
        ) from error
