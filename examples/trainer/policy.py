"""The model that is trained, and its logits at the sampled positions.

The rows of a batch begin alike: the same system prompt with the same tools, mostly the longer part.
That prefix is computed once for all of them, and what the rows of a group have in common behind it,
their task, once for the group. Rows read its keys and values, their gradients gather there, and go
through the prefix once at the end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    AutoModelForCausalLM,
    DynamicCache,
    logging,
)

from examples.trainer.rows import Row


def load(folder: Path) -> Any:
    """A model of a Hugging Face folder in fp32, without dropout, on the GPU if there is one."""
    logging.disable_progress_bar()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.to(device).eval()


def common_prefix(rows: Sequence[Row]) -> int:
    """How many first tokens all rows share, without the token that predicts a sampled one."""
    most = min(int(np.argmax(row.sampled)) for row in rows) - 1
    heads = np.stack([row.tokens[:most] for row in rows])
    same = (heads == heads[0]).all(axis=0)
    return most if same.all() else int(np.argmin(same))


class Prefix:
    """Keys and values of the first tokens of some rows."""

    def __init__(self, model: Any, tokens: list[int], before: "Prefix | None" = None) -> None:
        cache = before.cache(1) if before else DynamicCache()
        self.length: int = len(tokens) + (before.length if before else 0)
        if tokens:
            ids = torch.tensor(tokens, device=model.device)[None]
            model.model(input_ids=ids, past_key_values=cache, use_cache=True)
        self._computed = [each for keys, values, *_ in cache for each in (keys, values)]
        self._leaves = [each.detach().requires_grad_() for each in self._computed]

    def cache(self, rows: int) -> Any:
        """Of so many rows; what is computed with it has gradients up to here."""
        each = [leaf.expand(rows, -1, -1, -1) for leaf in self._leaves]
        return DynamicCache(list(zip(each[::2], each[1::2], strict=True)))

    def backward(self) -> None:
        """Carry what has gathered here on to the parameters, and to the prefix before."""
        if self._computed and self._computed[0].requires_grad:
            torch.autograd.backward(self._computed, [leaf.grad for leaf in self._leaves])


@contextmanager
def shared_prefix(
    model: Any, rows: Sequence[Row], before: Prefix | None = None
) -> Iterator[Prefix]:
    """What all the rows begin with; at the end the gradients that gathered there go on.

    Args:
        model: in fp32.
        rows: those that will be computed.
        before: the shared prefix of these rows and others, which is not computed again.
    """
    known = before.length if before else 0
    tokens = rows[0].tokens[known : common_prefix(rows)].tolist()
    prefix = Prefix(model, tokens, before)
    yield prefix
    prefix.backward()


def micro_batches(model: Any, rows: Sequence[Row], size: int) -> Iterator[tuple[list[int], Prefix]]:
    """At most `size` rows of a group at a time, and the prefix for `sampled_logits`.

    Yields:
        indices of rows, the longest first, so that little is padded; and the prefix. The backward
        pass of each comes before the next is taken.
    """
    order = sorted(range(len(rows)), key=lambda index: -rows[index].tokens.size)
    with shared_prefix(model, rows) as of_all:
        for number in sorted({row.group for row in rows}):
            group = [index for index in order if rows[index].group == number]
            with shared_prefix(model, [rows[index] for index in group], of_all) as prefix:
                for start in range(0, len(group), size):
                    yield group[start : start + size], prefix


def sampled_logits(model: Any, rows: Sequence[Row], prefix: Prefix) -> Any:
    """The logits at temperature 1 that predict the sampled tokens, row after row.

    Args:
        model: in fp32.
        rows: they begin with the prefix.
        prefix: of `shared_prefix` of these rows, or of `micro_batches`.

    Returns:
        float32[s, vocabulary] for the s sampled tokens of all rows.
    """
    longest = max(row.tokens.size for row in rows) - 1 - prefix.length
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    predicts = torch.zeros(len(rows), longest, dtype=torch.bool)
    for index, row in enumerate(rows):
        own = row.tokens.size - 1 - prefix.length  # the last token predicts nothing
        ids[index, :own] = torch.from_numpy(row.tokens[prefix.length : -1])
        predicts[index, :own] = torch.from_numpy(row.sampled[prefix.length + 1 :])
    # What follows a row's end is read by nothing before it, so the padding needs no mask.
    hidden = model.model(
        input_ids=ids.to(model.device), past_key_values=prefix.cache(len(rows)), use_cache=True
    ).last_hidden_state
    return model.lm_head(hidden[predicts.to(model.device)])
