"""What the marks on the results of a group mean after a crash. Pure.

All members are marked Sending before the first byte is sent, and Delivered after the trainer has
answered. So after a crash: a member that is not yet Sending proves that nothing was sent; one that
is Delivered proves that all was; all of them Sending prove nothing.
"""

from collections.abc import Sequence

from episode_operator.api.result import Delivery

UNKNOWN_ARRIVAL = "UnknownArrival"
LOST_WITH_TRAINER = "LostWithTrainer"
SUPERSEDED = "Superseded"
"""Another Episode took the place of this one in its group."""


def resolve(states: Sequence[Delivery | None]) -> Delivery:
    """Where a group is, from the marks that its members were left with."""
    for decided in (Delivery.DELIVERED, Delivery.DROPPED, Delivery.UNKNOWN):
        if decided in states:
            return decided
    if states and all(state is Delivery.SENDING for state in states):
        return Delivery.UNKNOWN
    return Delivery.PENDING
