"""Which terminal task a turn of the policy is about, by the names and words in it."""

import difflib
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from episode_operator.model.hermes import parse_turn
from trainer_bridge.sources.builtin.terminal import TerminalTask

_LEAST_SIMILARITY = 0.82
"""No two names of files are so close to each other."""
_WORD = re.compile(r"[a-z]+")


class Tasks:
    """Tasks that are told apart by the words and the names of files that they mention."""

    def __init__(self, tasks: Sequence[TerminalTask]) -> None:
        self._mentions = [(task, _mentioned(task)) for task in tasks]
        self._known = dict.fromkeys(sorted({word for _, known in self._mentions for word in known}))
        self._closest = lru_cache(maxsize=None)(self._find_closest)

    def meant(self, turn: str) -> TerminalTask | None:
        """The task of which most is in the turn; None where that is no single one.

        Where a part of several tasks is equally there, and the whole of one of them, it is that.
        What is written slightly wrong counts as what it is closest to.
        """
        words = _WORD.findall(turn.lower())
        there = {known for word in words if (known := self._closest(word))}
        most = max(len(known & there) for _, known in self._mentions)
        if not most:
            return None
        found = [(task, known) for task, known in self._mentions if len(known & there) == most]
        if len(found) > 1:
            found = [(task, known) for task, known in found if len(known) == most]
        return found[0][0] if len(found) == 1 else None

    def _find_closest(self, word: str) -> str | None:
        if word in self._known:
            return word
        close = difflib.get_close_matches(word, self._known, n=1, cutoff=_LEAST_SIMILARITY)
        return close[0] if close else None


def _mentioned(task: TerminalTask) -> frozenset[str]:
    return frozenset(task.words) | {PurePosixPath(path).stem for path in task.paths}


def runs(turn: str, command: str) -> bool:
    """Whether a terminal call of the turn has this command, up to spaces and quotes."""
    wanted = _parts(command)
    return any(
        call.name == "terminal" and _parts(str(call.arguments.get("command"))) == wanted
        for call in parse_turn(turn).calls
    )


def _parts(command: str) -> list[str] | None:
    """The words and operators of a command; None where its quotes are not closed."""
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None
