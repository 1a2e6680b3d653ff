"""Whether two models mean the same by every token id."""

import asyncio

from episode_operator.model.client import VllmClient
from episode_operator.model.errors import TeacherMismatch

_MARK = ":"
_IDS_PER_REQUEST = 512
_CONCURRENT_REQUESTS = 8
_MOST_IDS = 4_000_000


async def check_vocabulary(policy: VllmClient, teacher: VllmClient) -> None:
    """Return when every id has the same text on both servers; some hundreds of small requests.

    The same endpoint and name is the same model: nothing is asked. Raises TeacherMismatch, or
    another ModelError.
    """
    if (policy.endpoint, policy.model) == (teacher.endpoint, teacher.model):
        return
    # Around each id a known text, so that no id's end can pass for the next one's beginning.
    mark, other = await asyncio.gather(policy.tokenize(_MARK), teacher.tokenize(_MARK))
    if mark != other:
        raise TeacherMismatch(_message(policy, teacher, f"the text {_MARK!r} has other ids"))

    async def same(ids: range) -> bool:
        """Whether there are such ids; raises where their texts differ."""
        marked = [part for one in ids for part in (one, *mark)]
        ours, theirs = await asyncio.gather(policy.detokenize(marked), teacher.detokenize(marked))
        if ours != theirs:
            difference = f"ids {ids.start} to {ids.stop - 1} have other texts"
            raise TeacherMismatch(_message(policy, teacher, difference))
        return ours != _MARK * len(ids)

    step = _IDS_PER_REQUEST * _CONCURRENT_REQUESTS
    for start in range(0, _MOST_IDS, step):
        lows = range(start, start + step, _IDS_PER_REQUEST)
        there = await asyncio.gather(*(same(range(low, low + _IDS_PER_REQUEST)) for low in lows))
        if not all(there):  # vLLM decodes ids beyond the vocabulary to nothing
            return


def _message(policy: VllmClient, teacher: VllmClient, difference: str) -> str:
    return (
        f"{teacher.model!r} at {teacher.endpoint} has not the vocabulary of {policy.model!r} at "
        f"{policy.endpoint}: {difference}; a teacher must have the same tokenizer"
    )
