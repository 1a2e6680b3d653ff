"""`view`: how soon a browser paints a trajectory, against a page with nothing on it."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass

from playwright.async_api import Browser, async_playwright

from tests.bench.machine import Watch
from tests.bench.view_report import EMPTY, Cell, ViewReport
from tests.browser.chromium import CHROMIUM, ensure
from tests.browser.world import TURN_TOKENS, conversation, world
from tests.testbed.console import step
from tests.unit.records import NAMESPACE

TURNS = (10, 200)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How often to measure."""

    repeats: int


async def measure(settings: Settings, say: Say) -> ViewReport:
    """Each page by turns, in a browser context of its own, so that nothing is cached."""
    with step("Chromium") as tell:
        ensure(tell)
    watch, seen = Watch(), defaultdict[str, list[float]](list)
    async with world() as episodes, async_playwright() as playwright:
        paths = {EMPTY: "/nothing"}
        for turns in TURNS:
            name = f"turns-{turns}"
            episodes.add_episode(name)
            await episodes.finish(name, conversation(turns))
            path = f"/namespaces/{NAMESPACE}/episodes/{name}"
            paths[f"{turns} turns, {turns * TURN_TOKENS:,} tokens"] = path
        browser = await playwright.chromium.launch(executable_path=CHROMIUM)
        for repeat in range(settings.repeats + 1):
            for title, path in paths.items():
                seconds = await _first_paint(browser, episodes.url + path)
                if repeat:  # the first round warms up
                    seen[title].append(seconds)
                    say(f"repeat {repeat}/{settings.repeats}, {title}: {seconds:.3f} s")
        await browser.close()
    cells = [Cell(title, tuple(found)) for title, found in seen.items()]
    return ViewReport(asdict(settings), watch.end(), cells)


async def _first_paint(browser: Browser, url: str) -> float:
    """Seconds from the navigation to the first content."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(url)
    found: float = await page.evaluate(
        """() => new Promise(resolve => new PerformanceObserver(
          list => list.getEntriesByName("first-contentful-paint").forEach(
            entry => resolve(entry.startTime))
        ).observe({type: "paint", buffered: true}))"""
    )
    await context.close()
    return found / 1000
