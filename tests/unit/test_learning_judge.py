"""examples/learning: the judge finds the task that a turn is about, or gives no hint."""

import json
from dataclasses import replace

import pytest

from episode_operator.distill.votes import Decision, judge_messages, read_vote
from examples.learning.judge import TaskJudge, hint_text
from examples.learning.matching import Tasks, runs
from trainer_bridge.sources.builtin.terminal import TerminalTask, divided

TRAIN, HELD_OUT = divided(seed=3, count=200)
BY_FAMILY = {task.family: task for task in TRAIN}
EVERY = pytest.mark.parametrize("task", BY_FAMILY.values(), ids=lambda task: task.family)


def call(command: str) -> str:
    """A turn that runs a command, as a policy writes it."""
    arguments = {"name": "terminal", "arguments": {"command": command}}
    return f"<tool_call>\n{json.dumps(arguments)}\n</tool_call>"


def asked(judge: TaskJudge, turn: str) -> str | None:
    """The hint that the operator reads out of the judge's answer; None where it votes no."""
    (_, question) = judge_messages(turn, "[no output, exit code 0]", "tool")
    vote = read_vote(judge.vote(question["content"]))
    assert vote.decision is (Decision.YES if vote.hint else Decision.NO)
    return vote.hint


@EVERY
def test_a_wrong_command_gets_the_right_one(task: TerminalTask) -> None:
    judge = TaskJudge(TRAIN, HELD_OUT)
    for wrong in (f"cat {' '.join(task.paths)}", f"{task.command} 2>&1", f"true {task.paths[-1]}"):
        assert asked(judge, call(wrong)) == f"Run this command: {task.command}"
    assert judge.counts == {"hinted": 3}


@EVERY
def test_the_right_command_gets_none(task: TerminalTask) -> None:
    judge = TaskJudge(TRAIN, HELD_OUT)
    spread = task.command.replace(" ", "  ").replace(task.paths[0], f"'{task.paths[0]}'")
    for right in (task.command, f" {task.command}\n", spread, task.command.replace(" > ", ">")):
        assert asked(judge, call(right)) is None
    assert judge.counts == {"right": 4}


@EVERY
def test_slips_of_the_pen(task: TerminalTask) -> None:
    tasks = Tasks([*TRAIN, *HELD_OUT])
    for path in task.paths:
        stem = path.removeprefix("/workspace/").removesuffix(".txt")
        for slip in (f"{stem}s", f"{stem[:-2]}{stem[-1]}{stem[-2]}" if len(stem) > 5 else stem):
            assert tasks.meant(call(task.command.replace(stem, slip))) is task


def test_every_task_is_found_by_each_of_its_files() -> None:
    tasks = Tasks([*TRAIN, *HELD_OUT])
    for task in (*TRAIN, *HELD_OUT):
        assert tasks.meant(call(task.command)) is task
        assert all(tasks.meant(f"cat {path}") is task for path in task.paths)


def test_what_is_not_clear_gets_no_hint() -> None:
    judge = TaskJudge(TRAIN, HELD_OUT)
    first, second = TRAIN[:2]
    both = f"cp {first.paths[0]} {second.paths[0]}"
    for turn in ("Done.", "", call("ls /workspace"), call("cat /workspace/file.txt"), both):
        assert asked(judge, turn) is None
    assert judge.counts == {"unclear": 5}


def test_ordinary_words_mean_no_task() -> None:
    tasks = Tasks([*TRAIN, *HELD_OUT])
    for text in (
        call("echo sort tac tr sed grep wc cat head tail touch printf > /workspace/txt"),
        "I write the words and lines, sorted in upper or lower case, or their number, to the file.",
        call("ls input.txt output.txt result.txt file1.txt data.txt number.txt test.py script.sh"),
    ):
        assert tasks.meant(text) is None


def test_a_part_of_one_task_that_is_the_whole_of_another() -> None:
    whole = next(task for task in TRAIN if task.family == "write-1")
    larger = next(task for task in TRAIN if task.family == "count-2")
    larger = replace(larger, words=whole.words, paths=(whole.paths[0], larger.paths[1]))
    tasks = Tasks([larger, whole])
    assert tasks.meant(whole.command) is whole
    assert tasks.meant(f"{whole.command} {larger.paths[1]}") is larger
    assert tasks.meant(f"cat {whole.paths[0]}") is None


def test_nothing_is_taught_about_held_out_tasks() -> None:
    judge = TaskJudge(TRAIN, HELD_OUT)
    assert {asked(judge, call(f"cat {task.paths[0]}")) for task in HELD_OUT} == {None}
    assert judge.counts == {"held_out": len(HELD_OUT)}


def test_the_control_hints_another_task_in_the_same_places() -> None:
    true, control = TaskJudge(TRAIN, HELD_OUT), TaskJudge(TRAIN, HELD_OUT, another_task=True)
    commands = {hint_text(task.command) for task in TRAIN}
    turns = [call(f"cat {task.paths[0]}") for task in (*TRAIN, *HELD_OUT)]
    turns += [call(TRAIN[0].command), "Done."]
    for turn in turns:
        right, other = asked(true, turn), asked(control, turn)
        assert (right is None) == (other is None)
        assert right is None or (other != right and other in commands)
    assert true.counts == control.counts


def test_the_control_needs_another_task() -> None:
    with pytest.raises(ValueError, match="need two training tasks"):
        TaskJudge(TRAIN[:1], HELD_OUT, another_task=True)


def test_a_call_that_cannot_be_read_runs_nothing() -> None:
    command = TRAIN[0].command
    assert runs(call(command), command)
    assert runs(call("ls") + call(command), command)
    assert not runs(call(command).replace("terminal", "read_file"), command)
    assert not runs(call(command).replace("}}", ""), command)
    assert not runs(call(f"{command} '"), command)
    assert not runs(command, command)


def test_a_question_without_a_turn() -> None:
    with pytest.raises(ValueError, match="no part '## Assistant response"):
        TaskJudge(TRAIN, HELD_OUT).vote("What do you think?")
