"""What must be true of a run in the end, whatever has happened to its bridges."""

import re
from collections import Counter

from episode_operator.api.episode import Group
from episode_operator.api.result import Delivery
from episode_operator.kube.client import CONFIG_MAPS, EPISODES
from tests.bridge.operators import row_of
from tests.bridge.world import RUN, World
from trainer_bridge.run.names import state_name
from trainer_bridge.training import TrainingGroup


def check_outcome(world: World, groups: int) -> None:
    """Each group is with the trainer once and whole, or visibly dropped; nothing is left over.

    A group that was ever Unknown may be with the trainer and dropped, or with it twice.
    """
    state, sent = world.state, Counter(world.trainer.names)
    assert state.open == {}
    assert state.delivered + sum(state.dropped.values()) == state.next_group == groups
    assert world.names(EPISODES) == []
    assert world.names(CONFIG_MAPS) == [state_name(RUN)]
    unknown = world.marked(Delivery.UNKNOWN)
    assert {name for name, times in sent.items() if times > 1} <= unknown
    delivered, dropped = _fates(world)
    assert len(delivered) == state.delivered
    assert Counter(dropped.values()) == Counter(state.dropped)
    assert delivered <= sent.keys() <= delivered | unknown
    for group in world.trainer.received:
        _check_whole(world, group)


def _fates(world: World) -> tuple[set[str], dict[str, str]]:
    """Groups that are Delivered, and those that are Dropped with the reason, by all marks."""
    fates: dict[str, set[tuple[Delivery | None, str | None]]] = {}
    marks = world.marks()
    for episode, mark in marks.items():
        if _next_try(episode) in marks:
            assert mark == (Delivery.DROPPED, "Superseded")
        else:
            fates.setdefault(episode.rpartition("-m")[0], set()).add(mark)
    assert all(len(found) == 1 for found in fates.values()), fates
    fate = {name: found.pop() for name, found in fates.items()}
    assert {mark for mark, _ in fate.values()} <= {Delivery.DELIVERED, Delivery.DROPPED}
    delivered = {name for name, (mark, _) in fate.items() if mark is Delivery.DELIVERED}
    return delivered, {
        name: str(reason) for name, (_, reason) in fate.items() if name not in delivered
    }


def _check_whole(world: World, group: TrainingGroup) -> None:
    """The trainer has each member once, in order, with its own reward and its own row."""
    specs = [member.result.spec for member in group.members]
    assert len(specs) == 2
    for index, (member, spec) in enumerate(zip(group.members, specs, strict=True)):
        assert spec.group == Group(name=group.name, member=index)
        assert spec.image == f"registry.test/{group.task}:1"
        assert member.reward is not None
        assert member.reward == world.operator.reward(spec.episode.name)
        expected = row_of(spec.episode.name, world.operator.tokens)
        assert member.row is not None
        assert member.row.tokens.tolist() == expected.tokens.tolist()


def _next_try(episode: str) -> str:
    """Name of the Episode that takes the place of this one: of `g-m1` it is `g-m1-r1`."""
    found = re.fullmatch(r"(.*-m\d+)(?:-r(\d+))?", episode)
    assert found is not None
    return f"{found[1]}-r{int(found[2] or 0) + 1}"
