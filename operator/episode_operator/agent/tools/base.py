"""What a tool is: a name, a description, typed arguments, and a coroutine that answers in text."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from episode_operator.sandbox.session import Session


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are refused so that a typo is not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


class ToolError(Exception):
    """A call that went wrong in a way the model can act on; the text is its answer."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may use.

    `request_id` is unique in the Episode and the same when a restarted operator makes the call
    again, so that the runner gives the first run's result instead of running it twice. `user` is
    the one to act as, None the container's own.
    """

    session: Session
    request_id: str
    user: str | None
    timeout_seconds: int
    output_limit_bytes: int


class Tool(ABC, Generic[A]):
    """One tool. Subclasses are stateless: state lives in the sandbox."""

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: type[A]

    @abstractmethod
    async def run(self, context: ToolContext, arguments: A) -> str:
        """Run the call and return its answer.

        Raises:
            ToolError: the call went wrong; the model is told and may try again.
            SandboxError: the sandbox failed; the Episode's attempt ends.
        """

    async def call(self, context: ToolContext, arguments: dict[str, Any]) -> str:
        """Check the arguments, then run the call. Raises as `run` does."""
        try:
            parsed = self.arguments.model_validate(arguments)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()
            )
            raise ToolError(f"bad arguments for {self.name}: {problems}") from error
        return await self.run(context, parsed)

    def schema(self) -> dict[str, Any]:
        """The tool in the form of the OpenAI chat API."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        parameters.pop("description", None)
        parameters.pop("additionalProperties", None)
        for field in parameters.get("properties", {}).values():
            field.pop("title", None)
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": parameters,
            },
        }
