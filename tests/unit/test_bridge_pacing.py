"""When a group may start while groups end without a verdict."""

from itertools import pairwise

from trainer_bridge.run.pacing import LONGEST_PAUSE_SECONDS, Pacing


def test_nothing_is_in_the_way_at_first() -> None:
    assert Pacing().may_start(0.0)


def test_pauses_double_up_to_the_longest() -> None:
    pacing, now, pauses = Pacing(), 100.0, []
    for _ in range(12):
        pause = pacing.incomplete(now)
        assert pause is not None
        assert not pacing.may_start(now + 0.99 * pause)
        now += pause
        assert pacing.may_start(now)
        pauses.append(pause)
    assert pauses[0] == 1.0 and pauses[-1] == LONGEST_PAUSE_SECONDS
    assert all(later == min(2 * pause, LONGEST_PAUSE_SECONDS) for pause, later in pairwise(pauses))


def test_groups_of_before_a_pause_do_not_make_it_longer() -> None:
    pacing = Pacing()
    assert pacing.incomplete(10.0) == 1.0
    assert [pacing.incomplete(10.0 + 0.1 * number) for number in range(9)] == [None] * 9
    assert pacing.may_start(11.0)


def test_a_complete_group_ends_the_pause_and_what_led_to_it() -> None:
    pacing = Pacing()
    for now in (0.0, 1.0, 3.0):
        pacing.incomplete(now)
    pacing.complete()
    assert pacing.may_start(3.0)
    assert pacing.incomplete(3.0) == 1.0
