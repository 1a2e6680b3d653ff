"""`spec.verifier`: the one contract that turns the sandbox's final state into a reward."""

from enum import StrEnum

from pydantic import ConfigDict, Field

from episode_operator.api.base import (
    AbsolutePath,
    ApiModel,
    Archive,
    EnvVar,
    File,
    PositiveSeconds,
    UserName,
    cel,
    validations,
)
from episode_operator.api.decisions import Contract
from episode_operator.api.task import Script


class Isolation(StrEnum):
    """In which container the tests run."""

    SAME_CONTAINER = "SameContainer"
    SEPARATE_CONTAINER = "SeparateContainer"


class AgentProcesses(StrEnum):
    """What becomes of the processes that the agent left running."""

    KILL = "Kill"
    KEEP = "Keep"


class PytestVerifier(ApiModel):
    """Endless Terminals contract: every test passed is 1, a failed test is 0."""

    test: Script = Field(description="Content of the test file.")
    files: list[File] = Field(
        default=[], description="More files the tests need, written under /tests.", max_length=64
    )
    archives: list[Archive] = Field(
        default=[], description="More of them, as archives unpacked under /tests.", max_length=8
    )


class TestScriptVerifier(ApiModel):
    """Harbor / Terminal-Bench 2 contract: the script writes /logs/verifier/reward.{json,txt}."""

    __test__ = False

    script: Script = Field(description="Content of tests/test.sh; run as /tests/test.sh.")
    files: list[File] = Field(
        default=[], description="More files of the tests folder, under /tests.", max_length=64
    )
    archives: list[Archive] = Field(
        default=[], description="More of them, as archives unpacked under /tests.", max_length=8
    )


class TestCodeVerifier(ApiModel):
    """AgenticOPD contract: Python code run beside the agent's solution.py, composite reward."""

    __test__ = False

    code: Script = Field(description="Python test code; it imports from solution.")


def _under_tests(contract: str, field: str) -> dict[str, str]:
    return cel(
        f"!has(self.{contract}) || self.{contract}.{field}.all(f, "
        "f.path == '/tests' || f.path.startsWith('/tests/'))",
        "every path must lie under /tests/",
        field_path=f".{contract}.{field}",
    )


_CONTRACTS = "has(self.pytest), has(self.testScript), has(self.testCode)"


class Verifier(ApiModel):
    """Exactly one contract, and how long it may take."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                f"[{_CONTRACTS}].filter(x, x).size() == 1",
                "exactly one of pytest, testScript, testCode must be set",
            ),
            _under_tests("testScript", "files"),
            _under_tests("testScript", "archives"),
            _under_tests("pytest", "files"),
            _under_tests("pytest", "archives"),
            cel(
                "self.isolation == 'SeparateContainer' || "
                "(!has(self.image) && (!has(self.carry) || self.carry.size() == 0))",
                "image and carry are only for isolation SeparateContainer",
                field_path=".isolation",
            ),
            cel(
                "self.isolation == 'SameContainer' || self.agentProcesses == 'Kill'",
                "agentProcesses Keep is only for isolation SameContainer",
                field_path=".agentProcesses",
            ),
        )
    )

    pytest: PytestVerifier | None = Field(
        default=None, description="pytest on one file: all passed is 1, a failed test is 0."
    )
    test_script: TestScriptVerifier | None = Field(
        default=None, description="A test.sh that writes a reward file."
    )
    test_code: TestCodeVerifier | None = Field(
        default=None, description="Python test code, composite reward."
    )
    timeout_seconds: PositiveSeconds = Field(
        default=600,
        description="Time limit of the verifier, in seconds; passing it is no verdict.",
    )
    env: list[EnvVar] = Field(
        default=[], description="Environment of the tests, added to the image's.", max_length=64
    )
    user: UserName | None = Field(
        default=None,
        description="User that runs the tests, if not the container's own; needs a container that "
        "runs as root.",
    )
    agent_processes: AgentProcesses = Field(
        default=AgentProcesses.KILL,
        description="Kill ends every process of the agent before the tests enter. Keep is for "
        "tasks whose result is a running service; such an agent can watch and disturb the tests.",
    )
    isolation: Isolation = Field(
        default=Isolation.SAME_CONTAINER,
        description="SameContainer tests where the agent worked. SeparateContainer tests in a "
        "fresh container that has only what `carry` names, so that nothing the agent changed in "
        "the image decides the verdict.",
    )
    image: str | None = Field(
        default=None,
        description="Image of the separate container; the task's when not set.",
        min_length=1,
        max_length=512,
        pattern=r"^[^\s]+$",
    )
    carry: list[AbsolutePath] = Field(
        default=[],
        description="Files and folders carried over to the separate container; the task's workdir "
        "when empty.",
        max_length=64,
    )

    @property
    def contract(self) -> Contract:
        """The contract that is set."""
        if self.pytest is not None:
            return Contract.PYTEST
        return Contract.TEST_SCRIPT if self.test_script is not None else Contract.TEST_CODE

    @property
    def separate(self) -> bool:
        """Whether the tests run in a container of their own."""
        return self.isolation is Isolation.SEPARATE_CONTAINER
