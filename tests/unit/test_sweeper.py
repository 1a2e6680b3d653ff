"""What a sweep looks at."""

from datetime import UTC, datetime
from typing import Any

from episode_operator.api.labels import EPISODE_UID
from episode_operator.controller.sweeper import idle

BEFORE = datetime(2025, 11, 29, 9, 59, tzinfo=UTC).timestamp()


def item(uid: str, created: str = "2025-11-29T09:00:00Z", **metadata: Any) -> dict[str, Any]:
    labels = {EPISODE_UID: uid}
    return {"metadata": {"labels": labels, "creationTimestamp": created, **metadata}}


def test_only_what_no_episode_needs_is_idle() -> None:
    needed, orphan = item("a"), item("b")
    assert idle([needed, orphan], {"a"}, created_before=BEFORE) == [orphan]


def test_the_young_and_the_dying_are_left_alone() -> None:
    young = item("b", created="2025-11-29T09:59:30Z")
    dying = item("b", deletionTimestamp="2025-11-29T09:30:00Z")
    assert idle([young, dying], set(), created_before=BEFORE) == []
