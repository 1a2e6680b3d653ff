"""The episode that `opd` distils: eight turns that call a tool, each with its hint, and a last one.

What the policy says is forced, so that it is always as long; the ids are of its own choice.
"""

import json
from dataclasses import dataclass

from episode_operator.distill import Rollout
from episode_operator.model import Conversation, SamplingConfig, SpecialTokens, detect
from tests.cluster.vllm import TOOLS as TOOLSET
from tests.cluster.vllm import WatchedClient, messages_of
from tests.distillation import rollout_of

TOOLS = TOOLSET[:1]
"""The terminal."""
INSTRUCTION = (
    "stats.py prints the mean of the numbers in a file. It fails for some files. Repair it, and "
    "check that test_stats.py passes."
)
LAST_WORDS = "It is repaired."


@dataclass(frozen=True)
class Step:
    """A turn: what the policy says, the command it calls, what that prints, what the judge says."""

    says: str
    command: str
    prints: str
    hint: str

    @property
    def text(self) -> str:
        """The turn as it is sampled."""
        call = {"name": "terminal", "arguments": {"command": self.command}}
        return f"{self.says}\n<tool_call>\n{json.dumps(call)}\n</tool_call>"


STEPS = (
    Step(
        "I look around.",
        "ls -l",
        "total 12\n"
        "-rw-r--r-- 1 agent agent  61 Mar  3 09:12 data.csv\n"
        "-rw-r--r-- 1 agent agent 218 Mar  3 09:12 stats.py\n"
        "-rw-r--r-- 1 agent agent 302 Mar  3 09:12 test_stats.py\n",
        "List the folder and print both Python files in the same command.",
    ),
    Step(
        "Now the program.",
        "cat stats.py",
        "import sys\n\n\ndef mean(path):\n    total = 0\n    count = 0\n"
        "    for line in open(path):\n        total += float(line)\n        count += 1\n"
        "    return total / count\n",
        "Read the test together with the program, since it says which files must work.",
    ),
    Step(
        "Then the test.",
        "tail test_stats.py",
        "def test_blank(tmp_path):\n    assert mean(write(tmp_path, '1\\n\\n3\\n')) == 2\n\n\n"
        "def test_empty(tmp_path):\n    assert mean(write(tmp_path, '')) is None\n",
        "Two cases are not handled by the program. Name them before you go on.",
    ),
    Step(
        "I run it.",
        "pytest -q",
        "test_blank: ValueError: could not convert string to float: ''\n"
        "test_empty: ZeroDivisionError: division by zero\n"
        "FAILED test_stats.py::test_blank\nFAILED test_stats.py::test_empty\n"
        "2 failed, 1 passed in 0.08s\n",
        "The test already told you both faults. Repair them first and then run it.",
    ),
    Step(
        "Blank lines first.",
        "sed -i 's/(line)/(line or 0)/' stats.py; cat stats.py",
        "def mean(path):\n    total = 0\n    count = 0\n    for line in open(path):\n"
        "        total += float(line or 0)\n        count += 1\n    return total / count\n",
        "A blank line still holds its line break, so it is not empty. Skip it with continue "
        "where line.strip() is empty.",
    ),
    Step(
        "Again.",
        "pytest -q -k blank",
        "stats.py:8: in mean\n    total += float(line or 0)\n"
        "E   ValueError: could not convert string to float: '\\n'\n"
        "FAILED test_stats.py::test_blank\n1 failed, 2 deselected in 0.05s\n",
        "Think about what the line holds before you run it again.",
    ),
    Step(
        "I take an older one.",
        "cp /opt/stats.py . && wc stats.py",
        "  7  26 170 stats.py\nwarning: the file had 14 lines before, and 7 of them are gone:\n"
        "-if __name__ == '__main__':\n-    print(mean(sys.argv[1]))\n",
        "Keep the part that prints the mean when the program is started. Change only the loop.",
    ),
    Step(
        "I put the end back.",
        "tail -2 old.py >> stats.py && pytest -q",
        "ERROR collecting test_stats.py\nstats.py:10: in <module>\n    print(mean(sys.argv[1]))\n"
        "E   FileNotFoundError: [Errno 2] No such file or directory: '-q'\n1 error in 0.11s\n",
        "Put the call under if __name__ == '__main__', since the test imports this file.",
    ),
)


async def sample(client: WatchedClient) -> Rollout:
    """Sample it from the policy, token by token; nine turns."""
    conversation = await Conversation.start(
        client,
        await detect(client),
        messages_of({"instruction": INSTRUCTION}),
        TOOLS,
        sampling=SamplingConfig(temperature=1.0, max_tokens=256),
        specials=SpecialTokens(client),
    )
    for step in STEPS:
        client.forced.append(step.text)
        turn = await conversation.sample()
        answer = {"role": "tool", "content": step.prints, "tool_call_id": turn.call_id(0)}
        await conversation.append([answer])
    client.forced.append(LAST_WORDS)
    await conversation.sample()
    return rollout_of(conversation, TOOLS)
