"""Groups as Atropos hands them out, right in every way."""

import json
from typing import Any

import numpy as np

from examples.trainer.rows import MASKED, MASKED_LOGPROB, Row, read

Json = dict[str, Any]
VOCABULARY = 64
SIZE = 4
TOKENS = [5, 6, 7, 8, 9, 10, 11, 12]
SAMPLED = [False, False, False, True, True, False, True, True]
LOGPROBS = [-0.5, -1.5, -0.25, -2.0]


def group(*, taught: bool = False, **changes: Any) -> Json:
    """Four rows alike in their tokens; with a teacher at positions 3 and 7 of the second."""
    masks = [one if own else MASKED for one, own in zip(TOKENS, SAMPLED, strict=True)]
    values = iter(LOGPROBS)
    made: Json = {
        "tokens": [list(TOKENS) for _ in range(SIZE)],
        "masks": [list(masks) for _ in range(SIZE)],
        "scores": [0.0, 1.0, 0.0, 0.5],
        "advantages": None,
        "generation_params": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
    }
    row = [next(values) if own else MASKED_LOGPROB for own in SAMPLED]
    made["inference_logprobs"] = [list(row) for _ in range(SIZE)]
    if taught:
        made["distill_token_ids"] = [[[] for _ in TOKENS] for _ in range(SIZE)]
        made["distill_logprobs"] = [[[] for _ in TOKENS] for _ in range(SIZE)]
        made["distill_token_ids"][1][3], made["distill_logprobs"][1][3] = [8, 3], [-0.25, -2.0]
        made["distill_token_ids"][1][7], made["distill_logprobs"][1][7] = [1, 2, 3], [-1, -2, -3]
    return {**made, **changes}


def rows(*groups: Json, size: int | None = None, max_token_length: int = 100) -> list[Row]:
    """What the trainer reads of a batch of them."""
    size = SIZE * len(groups) if size is None else size
    answer = json.dumps({"batch": groups}).encode()
    return read(answer, size=size, max_token_length=max_token_length, vocabulary=VOCABULARY)


def sampled_logprobs(row: Row) -> list[float]:
    """Those of the sampled tokens, in order."""
    found: list[float] = row.logprobs[np.flatnonzero(row.sampled)].tolist()
    return found
