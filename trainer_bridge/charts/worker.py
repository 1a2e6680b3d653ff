"""Runs what may block or fail away from the event loop, in one thread."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable

from trainer_bridge import metrics

logger = logging.getLogger(__name__)


class Worker:
    """Runs jobs in order, one at a time. A job that fails is logged and counted, and ends there."""

    def __init__(self, name: str, *, most_waiting: int) -> None:
        """Start the thread; beyond `most_waiting` jobs new ones are refused."""
        self._name = name
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(most_waiting)
        # A daemon: one that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], None]) -> None:
        """Run the job once those before it are done; where too many wait, log and count that."""
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            metrics.CHART_ERRORS.labels(metrics.ChartError.QUEUE_FULL).inc()
            logger.error(
                "%s: %d jobs are waiting; the new one is left out", self._name, self._jobs.maxsize
            )

    async def close(self, last: Callable[[], None], *, within: float) -> None:
        """Run the waiting jobs and a last one, then end; give up after `within` seconds."""
        if not await asyncio.to_thread(self._end, last, time.monotonic() + within):
            metrics.CHART_ERRORS.labels(metrics.ChartError.FAILED).inc()
            logger.error("%s: not done after %g s; what is waiting is lost", self._name, within)

    def _end(self, last: Callable[[], None], deadline: float) -> bool:
        try:
            for job in (last, None):
                self._jobs.put(job, timeout=max(0, deadline - time.monotonic()))
        except queue.Full:
            return False
        self._thread.join(max(0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                metrics.CHART_ERRORS.labels(metrics.ChartError.FAILED).inc()
                logger.exception("%s: a job failed; training goes on", self._name)
