"""What a run of the learning proof is made of, and the bridge's configuration for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainer_bridge.sources.builtin.terminal import Family

Signal = Literal["reward", "hints", "both"]
Control = Literal["mask-shift", "shuffled-rewards", "other-logprobs"]

NAMESPACE = "learning"
"""Of the Episodes and of the model server."""

FAMILIES: tuple[Family, ...] = ("write-1", "transform-1", "count-1", "fix-1")
TASKS = 260
HELD_OUT_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run.

    Attributes:
        name: of the bridge's run, and of all that belongs to it.
        output: folder of all that is written.
        seed: decides the tasks, their order, and the trainer's chances.
        signal: what is learnt from: rewards, a teacher that is told hints, or both.
        hints_of_another_task: a control: every hint is another task's.
        control: a control: what the trainer does wrong.
        steps: of the trainer.
        groups, group_size: Episodes of a step: groups x group_size.
        epochs: optimizer steps on each batch.
        evaluated: held-out tasks of each evaluation.
        steps_per_evaluation: of the trainer; the first one is before its first step.
    """

    name: str
    output: Path
    seed: int
    signal: Signal
    hints_of_another_task: bool = False
    control: Control | None = None
    steps: int = 16
    groups: int = 3
    group_size: int = 8
    epochs: int = 1
    learning_rate: float = 8e-5
    evaluated: int = 32
    steps_per_evaluation: int = 8

    @property
    def batch_size(self) -> int:
        """Rows of a step."""
        return self.groups * self.group_size

    @property
    def distils(self) -> bool:
        """Whether a teacher is asked."""
        return self.signal != "reward"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the run's parts reach each other: URLs, and the tasks' image."""

    model: str
    model_name: str
    judge: str
    atropos: str
    image: str


def bridge_config(plan: Plan, places: Places, *, run: str) -> dict[str, Any]:
    """The configuration of the bridge, for a run of this name."""
    model = {"endpoint": places.model, "name": places.model_name}
    episode: dict[str, Any] = {
        "agent": {"toolsets": ["terminal"], "maxTurns": 2, "timeoutSeconds": 600},
        "model": {**model, "sampling": {"temperature": 1.0, "maxTokens": 64}},
    }
    if plan.distils:
        episode["distillation"] = {
            "topK": 20,
            "hintPlacement": "LastUserMessage",
            "judge": {"endpoint": places.judge, "name": "judge", "votes": 1},
        }
    return {
        "run": run,
        "namespace": NAMESPACE,
        "tasks": {
            "builtin": "terminal",
            "image": places.image,
            "seed": plan.seed,
            "families": list(FAMILIES),
            "limit": TASKS,
            "eval_split_ratio": HELD_OUT_SHARE,
        },
        "episode": episode,
        "env": {
            "group_size": plan.group_size,
            "max_token_length": 1024,
            "max_num_workers": plan.groups + 1,
            "max_batches_offpolicy": 2,
            "steps_per_eval": plan.steps_per_evaluation,
            "num_eval_tasks": plan.evaluated,
            "max_eval_workers": plan.batch_size // 2,
            "eval_folder": str(plan.output / "evaluations"),
            "result_ttl_seconds": None,
        },
        "sink": {"kind": "atropos", "url": places.atropos},
        "charts": {
            "use_wandb": True,
            "mode": "offline",
            "project": "learning",
            "dir": str(plan.output),
        },
    }
