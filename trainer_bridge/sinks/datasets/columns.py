"""The columns of a dataset: one row for each Episode.

A type is a name of `datasets` ("int32"), [type] for a list, or {name: type} for a struct. Structs
are never free-form: a reader of JSONL that meets unlike structs goes through another JSON library,
and that one rounds every number of the file to ten decimals.
"""

from typing import Any, Final

from trainer_bridge.sinks.records import MESSAGE

TIMESTAMP: Final = "timestamp[us, tz=UTC]"

COLUMNS: Final[dict[str, Any]] = {
    "episode": "string",
    "uid": "string",
    "group": "string",
    "member": "int32",
    "task": "string",
    "family": "string",
    "verdict": "string",
    "reason": "string",
    "reward": "float64",
    "reward_components": [{"name": "string", "value": "float64"}],
    "harness": "string",
    "agent_kind": "string",
    "agent_end": "string",
    "turns": "int32",
    "tool_calls": "int32",
    "tool_errors": "int32",
    "model": "string",
    "logprobs_mode": "string",
    "temperature": "float64",
    "tokens": ["int32"],
    "mask": ["bool"],
    "logprobs": ["float32"],
    "turn": ["int16"],
    "weight_versions": [{"version": "string", "start": "int32", "end": "int32"}],
    "student_topk_token_ids": [["int32"]],
    "student_topk_logprobs": [["float32"]],
    "distill_positions": ["int32"],
    "distill_token_ids": [["int32"]],
    "distill_logprobs": [["float32"]],
    "distill_sampled_logprobs": ["float32"],
    "distill_student_topk_logprobs": [["float32"]],
    "messages": [MESSAGE],
    "image": "string",
    "started_at": TIMESTAMP,
    "finished_at": TIMESTAMP,
}
