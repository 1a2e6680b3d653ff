"""`spec.verifier`: the one contract that turns the sandbox's final state into a reward."""

from pydantic import ConfigDict, Field

from episode_operator.api.base import ApiModel, EnvVar, File, PositiveSeconds, cel, validations
from episode_operator.api.task import Script


class PytestVerifier(ApiModel):
    """Endless Terminals contract: every test passed is 1, a failed test is 0."""

    test: Script = Field(description="Content of the test file.")
    files: list[File] = Field(
        default=[], description="More files the tests need, written under /tests.", max_length=64
    )


class TestScriptVerifier(ApiModel):
    """Harbor / Terminal-Bench 2 contract: the script writes /logs/verifier/reward.{json,txt}."""

    __test__ = False

    script: Script = Field(description="Content of tests/test.sh; run as /tests/test.sh.")
    files: list[File] = Field(
        default=[], description="More files of the tests folder, under /tests.", max_length=64
    )
    env: list[EnvVar] = Field(
        default=[], description="Environment of the script, added to the image's.", max_length=64
    )


class TestCodeVerifier(ApiModel):
    """AgenticOPD contract: Python code run beside the agent's solution.py, composite reward."""

    __test__ = False

    code: Script = Field(description="Python test code; it imports from solution.")


_CONTRACTS = "has(self.pytest), has(self.testScript), has(self.testCode)"


class Verifier(ApiModel):
    """Exactly one contract, and how long it may take."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                f"[{_CONTRACTS}].filter(x, x).size() == 1",
                "exactly one of pytest, testScript, testCode must be set",
            ),
            cel(
                "!has(self.testScript) || "
                "self.testScript.files.all(f, f.path.startsWith('/tests/'))",
                "every path must lie under /tests/",
                field_path=".testScript.files",
            ),
            cel(
                "!has(self.pytest) || self.pytest.files.all(f, f.path.startsWith('/tests/'))",
                "every path must lie under /tests/",
                field_path=".pytest.files",
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
