"""A model server whose turns depend on the prompt alone: asked again, it samples the same again."""

import re

from tests.fakes import chat
from tests.fakes.vllm_server import FakeVllm, Reply

_SCRIPT = re.compile(r"follow script (\d+)")
_TURN = "<|im_start|>assistant\n"


class ModelServer(FakeVllm):
    """Says the turns of the script that the instruction names."""

    def __init__(self) -> None:
        super().__init__()
        self.max_model_len = 32_768
        self._scripts: list[list[str]] = []

    def instruction(self, turns: list[str]) -> str:
        """Keep a script; the instruction that makes this server follow it."""
        self._scripts.append(turns)
        return f"follow script {len(self._scripts) - 1}"

    def reply_to(self, prompt: list[int]) -> Reply:
        """The turn that the prompt has come to."""
        text = chat.decode(prompt)
        named = _SCRIPT.search(text)
        assert named is not None, "every Episode of chaos has an instruction of this server's"
        return Reply(text=self._scripts[int(named[1])][text.count(_TURN) - 1])
