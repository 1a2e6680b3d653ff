"""A judge that says what it is told to, in the OpenAI chat protocol."""

from typing import Any

NO = "Nothing to be learnt from this. \\boxed{-1}"


def yes(hint: str) -> str:
    """An answer that votes for a hint."""
    return f"The next state shows more. \\boxed{{1}} [HINT_START]{hint}[HINT_END]"


class ScriptedJudge:
    """Answers by what stands in the question; without a rule for it, NO."""

    def __init__(self) -> None:
        self._rules: list[tuple[str, list[str]]] = []
        self.questions: list[str] = []

    def when(self, text: str, *answers: str) -> None:
        """Where `text` stands in the question, give these answers in turn, the last ever again."""
        self._rules.append((text, list(answers)))

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The chat completion."""
        question = body["messages"][-1]["content"]
        self.questions.append(question)
        content = NO
        for text, answers in self._rules:
            if text in question:
                content = answers.pop(0) if len(answers) > 1 else answers[0]
                break
        message = {"role": "assistant", "content": content}
        return {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
