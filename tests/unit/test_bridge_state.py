"""What a bridge remembers of its run."""

from trainer_bridge.run.names import GroupName
from trainer_bridge.run.state import RunState


def started(*tasks: str, step: int | None = None) -> RunState:
    state = RunState(uid="u")
    for task in tasks:
        state.start(task, members=2, step=step)
    return state


def test_groups_are_numbered_and_never_again() -> None:
    state = started("a", "b")
    state.deliver(0)
    assert state.start("c", members=2, step=4) == 2
    assert list(state.open) == [1, 2]
    assert state.open[2].step == 4


def test_what_became_of_groups_is_counted() -> None:
    state = started("a", "b", "c")
    state.deliver(1)
    state.drop(0, "EqualScores")
    state.drop(2, "EqualScores")
    assert (state.delivered, state.dropped, state.open) == (1, {"EqualScores": 2}, {})


def test_a_rerun_changes_the_name_of_the_episode() -> None:
    state, name = started("a"), GroupName.training("run", 0)
    assert name.episode(1, state.open[0].tries.get(1, 0)) == "run-000000-m1"
    state.rerun(0, 1, "NodeLost")
    assert name.episode(1, state.open[0].tries.get(1, 0)) == "run-000000-m1-r1"
    assert (state.reruns_of(0), state.reruns, state.no_verdict) == (1, 1, {"NodeLost": 1})


def test_groups_that_a_trainer_has_lost_are_open_again() -> None:
    state = started("a", "b", "c")
    for index in (2, 0, 1):
        state.deliver(index)
    assert state.lose([0, 1, 7]) == [0, 1]
    assert [(index, group.task, group.lost) for index, group in state.open.items()] == [
        (0, "a", True),
        (1, "b", True),
    ]
    assert (state.delivered, state.unknown) == (1, 2)
    assert state.lose([0, 2]) == [2]


def test_it_survives_its_storage() -> None:
    state = started("a", "b", step=7)
    state.rerun(1, 0, "Evicted")
    state.deliver(0)
    assert RunState.model_validate_json(state.model_dump_json()) == state


def test_names_of_training_and_evaluation_differ() -> None:
    names = {
        GroupName.training("run", 3).episode(0, 0),
        GroupName.training("run", 4).episode(0, 0),
        GroupName.evaluation("run", "s3", "a", 0).episode(0, 0),
        GroupName.evaluation("run", "s3", "a", 1).episode(0, 0),
        GroupName.evaluation("run", "s3", "b", 0).episode(0, 0),
        GroupName.evaluation("run", "s4", "a", 0).episode(0, 0),
    }
    assert len(names) == 6


def test_a_lost_group_keeps_its_step_and_tries() -> None:
    state = started("a", step=7)
    state.rerun(0, 1, "Evicted")
    state.deliver(0)
    state.lose([0])
    assert (state.open[0].step, state.open[0].tries, state.open[0].lost) == (7, {1: 1}, True)


def test_evaluations_are_due_every_so_many_steps_and_after_a_new_beginning() -> None:
    state = RunState(uid="u")
    assert not state.evaluation_due(5), "no trainer yet"
    state.step = 0
    assert state.evaluation_due(5)
    state.evaluate(0)
    assert not state.evaluation_due(5), "one is under way"
    state.evaluated, state.evaluating = 0, None
    state.step = 4
    assert not state.evaluation_due(5)
    state.step = 5
    assert state.evaluation_due(5)
    state.evaluated, state.step = 5, 2
    assert state.evaluation_due(5), "the trainer began anew"
