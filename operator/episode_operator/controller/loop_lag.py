"""How late the event loop is: the time for which everything else waits."""

import asyncio

from episode_operator.controller import metrics

_EVERY_SECONDS = 0.25


async def measure() -> None:
    """Measure it for ever."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        metrics.EVENT_LOOP_LAG.observe(max(0.0, loop.time() - due))
