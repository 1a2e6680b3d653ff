"""Trains tiny models in vLLM's environment and tells what came of it.

Reads lines of JSON from stdin: `call`, the name of a function below, and its `arguments`. Prints
what each gives as a line of JSON. Imports only the trainer, as nothing else of ours is installed
here.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from transformers import LlamaConfig, LlamaForCausalLM  # type: ignore[import-not-found]

from examples.trainer import losses
from examples.trainer.advantages import group_advantages, token_advantages
from examples.trainer.checkpoints import Checkpoints, load_optimizer
from examples.trainer.controls import controlled
from examples.trainer.options import Options
from examples.trainer.policy import common_prefix, load, micro_batches, sampled_logits
from examples.trainer.rows import MASKED_LOGPROB, Row, Teacher
from examples.trainer.update import accumulate, update

VOCABULARY = 64
GROUP = 4
TOP = 40
"""Tokens of the teacher at a position, of 64."""
TASK = 5
"""Tokens of a group's task, which its rows share."""


def model(seed: int, *, vocabulary: int = VOCABULARY) -> Any:
    """A random Llama whose distributions are far from even."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.25,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).eval()


def options(**changes: Any) -> Options:
    """Options of an update."""
    needed = {"vllm": "", "model": Path(), "output": Path(), "pushed": Path()}
    return Options(**{**needed, "pushed_on_server": "", "steps": 1, "micro_batch": 3, **changes})


def plain_logits(policy: Any, row: Row) -> Any:
    """Of the sampled tokens, computed in one piece: float32[s, vocabulary]."""
    logits = policy(torch.from_numpy(row.tokens)[None]).logits[0]
    return logits[torch.from_numpy(np.flatnonzero(row.sampled) - 1)]


def plain_logprobs(policy: Any, row: Row) -> Any:
    """Of the sampled tokens: float32[s]."""
    tokens = torch.from_numpy(row.tokens[row.sampled])[:, None]
    return plain_logits(policy, row).log_softmax(-1).gather(1, tokens)[:, 0]


def sampled_rows(
    policy: Any,
    *,
    seed: int,
    draw: int = 0,
    count: int = 8,
    prefix: int = 12,
    teacher: Any = None,
) -> list[Row]:
    """Rows that the policy itself has sampled, in two turns of different lengths.

    What is inserted depends on the seed alone.
    """
    chance = np.random.default_rng(seed)
    torch.manual_seed(draw)
    head = chance.integers(0, VOCABULARY, prefix).tolist()
    tasks = chance.integers(0, VOCABULARY, (count // GROUP, TASK))
    answers = chance.integers(0, VOCABULARY, (count, 2))
    rows = []
    for index in range(count):
        tokens, sampled = list(head), [False] * prefix
        for inserted, own in ((tasks[index // GROUP], 3 + index % 4), (answers[index], 4)):
            tokens += inserted.tolist()
            sampled += [False] * len(inserted) + [True] * own
            with torch.no_grad():
                for _ in range(own):
                    logits = policy(torch.tensor(tokens)[None]).logits[0, -1]
                    tokens.append(int(torch.multinomial(logits.softmax(-1), 1)))
        rows.append(scored(policy, teacher, tokens, sampled, index))
    return rows


def scored(policy: Any, teacher: Any, tokens: list[int], sampled: list[bool], index: int) -> Row:
    """The row of a member, with the logprobs of the policy and a teacher's likeliest tokens."""
    ids, mask = np.array(tokens), np.array(sampled)
    row = Row(
        ids, mask, np.full(len(tokens), MASKED_LOGPROB, np.float32), index % 3, index // GROUP
    )
    with torch.no_grad():
        row.logprobs[mask] = plain_logprobs(policy, row).numpy()
        if teacher is None:
            return row
        top = plain_logits(teacher, row).log_softmax(-1).topk(TOP)
    positions = np.flatnonzero(mask)
    taught = Teacher(
        positions,
        np.full(positions.size, TOP),
        top.indices.flatten().numpy(),
        top.values.flatten().numpy(),
    )
    return Row(ids, mask, row.logprobs, row.score, row.group, taught)


def optimizer_of(policy: Any, *, learning_rate: float = 2e-3) -> Any:
    """As the trainer's, but fast."""
    return torch.optim.AdamW(policy.parameters(), lr=learning_rate, weight_decay=0.0)


def gradient(policy: Any) -> Any:
    """All of it, flat; and none is left."""
    flat = torch.cat([one.grad.flatten() for one in policy.parameters()])
    policy.zero_grad(set_to_none=True)
    return flat


def shared_prefix_logprobs() -> list[dict[str, Any]]:
    """With prefixes of several lengths: how far from those of a row alone."""
    policy, told = model(0), []
    for prefix in (0, 1, 12):
        rows = sampled_rows(policy, seed=prefix, prefix=prefix)
        shared, differences, plains = set(), [], []
        with torch.no_grad():
            for indices, one in micro_batches(policy, rows, 3):
                shared.add(one.length)
                for some in [rows[index] for index in indices]:
                    plains.append(plain_logprobs(policy, some))
                logits = sampled_logits(policy, [rows[index] for index in indices], one)
                tokens = np.concatenate([rows[i].tokens[rows[i].sampled] for i in indices])
                found = losses.token_logprobs(logits, torch.from_numpy(tokens))
                differences.append((found - torch.cat(plains[-len(indices) :])).abs().max())
        told.append(
            {
                "prefix": common_prefix(rows),
                "shared": sorted(shared),
                "difference": float(max(differences)),
                "spread": float(torch.cat(plains).std()),
                "rows": len(plains),
            }
        )
    return told


def gradients(opd_loss: str) -> dict[str, float]:
    """Of several micro-batches, and of a loss written down plainly: relative differences."""
    policy, teacher = model(0), model(1)
    rows = sampled_rows(model(2), seed=0, teacher=teacher)  # ratios far from 1, some clipped
    told = options(opd_loss=opd_loss, opd_weight=0.5, opd_clip=1.0)
    plain = torch.zeros(())
    tokens = sum(int(row.sampled.sum()) for row in rows)
    weight = 0.5 if opd_loss == "advantage" else 0.0
    mixed = token_advantages(rows, reward_weight=1.0, teacher_weight=weight, teacher_clip=1.0)
    clipped = 0
    for row, advantages in zip(rows, mixed, strict=True):
        ratio = (plain_logprobs(policy, row) - torch.from_numpy(row.logprobs[row.sampled])).exp()
        for one, advantage in zip(ratio, advantages, strict=True):
            kept = one if advantage >= 0 else torch.clamp(one, min=0.8)
            kept = torch.clamp(kept, max=1.2) if advantage >= 0 else kept
            clipped += int(bool(advantage) and bool((kept != one).detach()))
            plain = plain - kept * float(advantage) / tokens
        if opd_loss == "topk-kl":
            plain = plain + 0.5 * plain_divergence(policy, row).sum() / tokens
    plain.backward()
    expected = gradient(policy)
    found = {"norm": float(expected.norm()), "clipped": clipped}
    for size in (1, 3, 8):
        one = accumulate(policy, rows, options(**{**vars(told), "micro_batch": size}))
        difference = gradient(policy) - expected
        found[f"by {size}"] = float(difference.norm() / expected.norm())
        found[f"clipped by {size}"] = one.clipped
    return found


def plain_divergence(policy: Any, row: Row) -> Any:
    """KL of TOP + 1 outcomes at each sampled position, in probabilities and float64."""
    assert row.teacher is not None
    ours = plain_logits(policy, row).double().softmax(-1)
    ids = torch.from_numpy(row.teacher.token_ids).reshape(-1, TOP)
    theirs = torch.from_numpy(row.teacher.logprobs).double().exp().reshape(-1, TOP)
    listed = ours.gather(1, ids)
    p = torch.cat([theirs, 1 - theirs.sum(1, keepdim=True)], 1)
    q = torch.cat([listed, 1 - listed.sum(1, keepdim=True)], 1)
    return (p * (p / q).log()).sum(1)


def divergence_cases() -> dict[str, float]:
    """The top-k KL where it can be said what it must be."""
    torch.manual_seed(0)
    theirs, ours = torch.randn(3, 6), torch.randn(3, 6, requires_grad=True)
    p = theirs.log_softmax(-1)

    def taught(counts: list[int], logprobs: Any = p) -> Teacher:
        top = [logprobs[at].topk(count) for at, count in enumerate(counts)]
        return Teacher(
            np.arange(len(counts)),
            np.array(counts),
            torch.cat([one.indices for one in top]).numpy(),
            torch.cat([one.values for one in top]).numpy(),
        )

    whole = (p.exp() * (p - ours.log_softmax(-1))).sum(-1)
    ragged = losses.top_k_kl(ours, taught([1, 3, 6]))
    losses.top_k_kl(ours, taught([6, 6, 6])).sum().backward()
    assert ours.grad is not None
    return {
        "all listed": float((losses.top_k_kl(ours, taught([6, 6, 6])) - whole).abs().max()),
        "all listed, gradient": float(
            (ours.grad - (ours.softmax(-1) - p.exp())).abs().max().detach()
        ),
        "same": float(losses.top_k_kl(theirs, taught([1, 3, 5])).abs().max()),
        "above the whole": float((ragged - whole).max()),
        "least": float(ragged.min()),
    }


def ratio(control: str | None) -> float:
    """Largest |log ratio| of rows that the model itself has sampled."""
    policy = model(0)
    rows = controlled(sampled_rows(policy, seed=0), control, seed=0, step=0)
    return float(accumulate(policy, rows, options()).log_ratio.abs().max())


def reward_learning() -> list[dict[str, float]]:
    """For each row its advantage, and how much likelier its sampled tokens became by updates."""
    policy = model(0)
    rows = sampled_rows(policy, seed=0)
    optimizer = optimizer_of(policy)
    for _ in range(8):
        update(policy, optimizer, rows, options())
    with torch.no_grad():
        gains = [
            float(
                (plain_logprobs(policy, row) - torch.from_numpy(row.logprobs[row.sampled])).mean()
            )
            for row in rows
        ]
    advantages = group_advantages(rows).tolist()
    return [{"advantage": a, "gain": g} for a, g in zip(advantages, gains, strict=True)]


def teacher_learning(opd_loss: str) -> dict[str, list[float]]:
    """KL(teacher || policy) and KL(policy || teacher) before and after, where it was trained."""
    policy, teacher = model(0), model(1)
    contexts = sampled_rows(policy, seed=0)
    optimizer = optimizer_of(policy, learning_rate=4e-3)
    told = options(opd_loss=opd_loss, opd_weight=1.0, reward_weight=0.0)
    found = {"before": distances(policy, teacher, contexts)}
    for step in range(20):
        rows = sampled_rows(policy, seed=0, draw=step, teacher=teacher)
        update(policy, optimizer, rows, told)
    return {**found, "after": distances(policy, teacher, contexts)}


def distances(policy: Any, teacher: Any, rows: list[Row]) -> list[float]:
    """Means over the sampled positions."""
    with torch.no_grad():
        ours = torch.cat([plain_logits(policy, row) for row in rows]).log_softmax(-1)
        theirs = torch.cat([plain_logits(teacher, row) for row in rows]).log_softmax(-1)
    forward = (theirs.exp() * (theirs - ours)).sum(-1).mean()
    return [float(forward), float((ours.exp() * (ours - theirs)).sum(-1).mean())]


def resumed() -> dict[str, Any]:
    """Six steps in one go, and interrupted after each second one: the weights at the end."""
    batches = [sampled_rows(model(0), seed=step) for step in range(6)]
    ends = []
    with TemporaryDirectory() as folder:
        for stops in ((6,), (2, 4, 6)):
            checkpoints = Checkpoints(Path(folder) / str(len(stops)))
            first = model(0)
            checkpoints.save(first, optimizer_of(first), steps=0, record=None)
            for stop in stops:
                found = checkpoints.latest()
                assert found is not None
                policy = load(found.folder)
                optimizer = optimizer_of(policy)
                load_optimizer(found, optimizer)
                for step in range(found.steps, stop):
                    update(policy, optimizer, batches[step], options(epochs=2))
                    checkpoints.save(policy, optimizer, steps=step + 1, record={"step": step})
            ends.append(torch.cat([one.detach().flatten() for one in policy.parameters()]))
        last = checkpoints.latest()
        assert last is not None
        kept = sorted(one.name for one in last.folder.parent.iterdir())
    moved = torch.cat([one.detach().flatten() for one in model(0).parameters()]) - ends[0]
    return {
        "moved": float(moved.abs().max()),
        "difference": float((ends[0] - ends[1]).abs().max()),
        "kept": kept,
        "record": last.record,
    }


def write_model(folder: str, vocabulary: int) -> None:
    """A tiny model for a whole run."""
    model(0, vocabulary=vocabulary).save_pretrained(folder)


CALLS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        shared_prefix_logprobs,
        gradients,
        divergence_cases,
        ratio,
        reward_learning,
        teacher_learning,
        resumed,
        write_model,
    )
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(CALLS[asked["call"]](**asked["arguments"])), flush=True)
