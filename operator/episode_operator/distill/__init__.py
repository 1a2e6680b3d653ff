"""On-policy distillation: what a teacher that was told a hint thinks of the policy's own tokens.

`distill` takes a recorded `Rollout`; for each of its turns a `Judge` reads what followed it and may
give a hint; the teacher (`model.scoring.Scorer`) then scores the turn's sampled ids in a prompt
that holds the hint. Nothing here touches a reward.
"""

from episode_operator.distill.judge import Judge
from episode_operator.distill.pipeline import distill
from episode_operator.distill.prompts import Policy
from episode_operator.distill.records import Config, Distilled, TurnRecord
from episode_operator.distill.rollout import Rollout
from episode_operator.distill.vocabulary import check_vocabulary
from episode_operator.distill.votes import Decision, Vote

__all__ = [
    "Config",
    "Decision",
    "Distilled",
    "Judge",
    "Policy",
    "Rollout",
    "TurnRecord",
    "Vote",
    "check_vocabulary",
    "distill",
]
