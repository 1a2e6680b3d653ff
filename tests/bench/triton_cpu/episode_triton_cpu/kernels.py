"""Two kernels of vLLM's logprobs, done by torch.

Each goes over the whole vocabulary once for every token of a prompt, for which the interpreter
takes a tenth of a second and more. What is computed is the same, and nothing else is replaced.
"""

from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import-not-found]


class _Kernel:
    """Called as a kernel is: `kernel[grid](...)`."""

    def __init__(self, run: Callable[..., None]) -> None:
        self._run = run

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._run


def _log_softmax(
    output: Any, logits: Any, logits_stride: int, ids: Any, *sizes: int, **blocks: int
) -> None:
    """output[rows, n]: logprobs of ids[rows, n] from logits[rows, vocabulary]."""
    output.copy_(torch.log_softmax(logits.float(), dim=-1).gather(-1, ids))


def _ranks(
    output: Any, logits: Any, logits_stride: int, ids: Any, vocabulary: int, **blocks: int
) -> None:
    """output[rows]: how many logits are at least that of ids[rows]."""
    output.copy_((logits >= logits.gather(-1, ids.unsqueeze(-1))).sum(dim=-1))


def register() -> None:
    """Put them in the place of vLLM's."""
    from vllm.v1.worker.gpu.sample import (  # type: ignore[import-not-found] # noqa: PLC0415
        logprob,
    )

    for name, run in (("_topk_log_softmax_kernel", _log_softmax), ("_ranks_kernel", _ranks)):
        getattr(logprob, name)  # another version of vLLM may have no such kernel
        setattr(logprob, name, _Kernel(run))
