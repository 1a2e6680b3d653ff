"""A record in ATIF, the Agent Trajectory Interchange Format.

Version 1.7 is the oldest that has all fields used here; readers of later ones take it too.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from episode_operator.api.agent import AgentKind
from episode_operator.api.result import EpisodeResultSpec, WeightSpan
from episode_operator.results.payload import TokenRow
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.sinks.checks import Refusal
from trainer_bridge.sinks.records import messages
from trainer_bridge.training import TrainingGroup

VERSION: Final = "ATIF-v1.7"
AGENT: Final = "episode-operator"
UNKNOWN: Final = "unknown"
"""A result does not tell the version of the operator, and ATIF wants one."""

Object = dict[str, Any]


def trajectory(record: EpisodeRecord, group: TrainingGroup) -> Object:
    """The trajectory of an Episode: its messages as steps, with the tokens of each turn.

    Raises:
        RefusedError: Malformed: the row has other turns than the messages. BadMessages: there are
            none, or ATIF has no place for something in one.
    """
    spec = record.result.spec
    steps = _steps(record)
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    final: Object = {"total_steps": len(steps)}
    if record.row is not None:
        for name in ("prompt_tokens", "completion_tokens"):
            final[f"total_{name}"] = sum(one[name] for one in metrics)
    return {
        "schema_version": VERSION,
        "session_id": spec.episode.uid,
        "agent": _agent(spec),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        "final_metrics": final,
        "extra": _extra(spec, group),
    }


def _agent(spec: EpisodeResultSpec) -> Object:
    extra: Object = {"kind": spec.agent_kind}
    agent: Object = {"name": AGENT, "version": UNKNOWN, "extra": extra}
    if spec.model is not None:
        agent["model_name"] = spec.model.name
        extra["logprobs_mode"] = spec.model.logprobs_mode
        extra["sampling"] = spec.model.sampling.model_dump()
    return agent


def _extra(spec: EpisodeResultSpec, group: TrainingGroup) -> Object:
    return {
        "episode": spec.episode.name,
        "group": group.name,
        "member": None if spec.group is None else spec.group.member,
        "task": group.task,
        "family": group.family,
        "verdict": spec.verdict,
        "reason": spec.reason,
        "reward": spec.reward,
        "reward_components": spec.reward_components,
        "harness": spec.harness,
        "agent_end": spec.agent_end,
        "counts": spec.counts.model_dump(),
        "image": spec.image,
        "started_at": spec.started_at,
        "finished_at": spec.finished_at,
    }


def _steps(record: EpisodeRecord) -> list[Object]:
    """The steps without their numbers; tool messages are observations of the turn before them."""
    name = record.result.spec.episode.name
    said = messages(record)
    if not said:
        raise RefusedError(
            Refusal.BAD_MESSAGES, f"Episode {name} has no messages, so no trajectory"
        )
    turns = _turns(record, sum(message["role"] == "assistant" for message in said))
    steps: list[Object] = []
    for message in said:
        role = message["role"]
        if role == "assistant":
            steps.append({**_spoken(message, name), **turns.pop(0)})
        elif role == "tool" and steps and steps[-1]["source"] == "agent":
            observation = steps[-1].setdefault("observation", {"results": []})
            calls = [call["tool_call_id"] for call in steps[-1].get("tool_calls", [])]
            observation["results"].append(_result(message, calls))
        elif role in ("system", "user"):
            steps.append({"source": role, "message": message["content"] or ""})
        else:
            raise RefusedError(
                Refusal.BAD_MESSAGES, f"Episode {name}: a message of {role} is out of place"
            )
    return steps


def _spoken(message: Object, name: str) -> Object:
    step: Object = {"source": "agent", "message": message["content"] or ""}
    if message["reasoning"]:
        step["reasoning_content"] = message["reasoning"]
    if message["tool_calls"]:
        step["tool_calls"] = [_call(call, name) for call in message["tool_calls"]]
    return step


def _call(call: Object, name: str) -> Object:
    function = call["function"]
    try:
        arguments = orjson.loads(function["arguments"])
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise RefusedError(
            Refusal.BAD_MESSAGES,
            f"Episode {name}: the arguments of {call['id']} are no JSON object, as ATIF wants them",
        )
    return {
        "tool_call_id": call["id"],
        "function_name": function["name"],
        "arguments": arguments,
    }


def _result(message: Object, calls: Sequence[str]) -> Object:
    """A call that could not be read is not among the step's; its answer says which it was."""
    call = message["tool_call_id"]
    source = {"source_call_id": call} if call in calls else {"extra": {"tool_call_id": call}}
    return {**source, "content": message["content"]}


def _turns(record: EpisodeRecord, spoken: int) -> list[Object]:
    """What is known of the inference of each of the `spoken` turns."""
    spec, row = record.result.spec, record.row
    if row is None:
        unsampled = spec.agent_kind is not AgentKind.MODEL
        return [{"llm_call_count": 0} if unsampled else {} for _ in range(spoken)]
    sampled = np.unique(row.turn[row.mask]).tolist()
    if sampled != list(range(spoken)):
        raise RefusedError(
            Refusal.MALFORMED,
            f"Episode {spec.episode.name}: {spoken} messages of the assistant, but the row has the "
            f"turns {sampled}",
        )
    return [
        {"llm_call_count": 1, "metrics": _metrics(row, turn, spec.weight_versions)}
        for turn in sampled
    ]


def _metrics(row: TokenRow, turn: int, spans: Sequence[WeightSpan]) -> Object:
    """Ids and values of a turn; the prompt is all of the row before it."""
    positions = np.flatnonzero(row.mask & (row.turn == turn))
    start, end = int(positions[0]), int(positions[-1]) + 1
    versions = [
        {
            "version": span.version,
            "start": max(span.start, start) - start,
            "end": min(span.end, end) - start,
        }
        for span in spans
        if span.start < end and span.end > start
    ]
    return {
        "prompt_tokens": start,
        "completion_tokens": positions.size,
        "prompt_token_ids": row.tokens[:start].tolist(),
        "completion_token_ids": row.tokens[positions].tolist(),
        "logprobs": row.logprobs[positions].tolist(),
        **({"extra": {"weight_versions": versions}} if versions else {}),
    }
