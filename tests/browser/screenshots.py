"""Takes the screenshots of docs/web-view.md: `make screenshots`."""

import asyncio
from pathlib import Path

from playwright.async_api import Page, async_playwright

from tests.browser.chromium import CHROMIUM, ensure
from tests.browser.world import World, conversation, world
from tests.unit.records import NAMESPACE

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT = 1200, 760


async def take(page: Page, name: str) -> None:
    """Save what the page shows now."""
    FOLDER.mkdir(exist_ok=True)
    await page.screenshot(path=FOLDER / f"{name}.png")


async def fill(episodes: World) -> None:
    """A group of four, and an Episode at work."""
    for number, reward in enumerate((1.0, 0.0, 1.0, 0.0)):
        name = f"coding-000001-m{number}"
        episodes.add_episode(name)
        await episodes.finish(name, conversation(3 + number), reward=reward)
    uid = episodes.add_episode("hello")
    episodes.said[uid] = conversation(3)[:5]


async def main() -> None:
    """Take all."""
    ensure(print)
    async with world() as episodes, async_playwright() as playwright:
        await fill(episodes)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM)
        page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        await page.goto(episodes.url)
        await take(page, "view-list")
        await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/episodes/coding-000001-m0")
        await take(page, "view-episode")
        turn = page.locator("li.turn").first
        await turn.get_by_text("tokens", exact=True).click()
        await turn.locator(".heat span").first.wait_for()
        await turn.scroll_into_view_if_needed()
        await turn.evaluate("turn => scrollTo(0, turn.offsetTop - 60)")
        await take(page, "view-tokens")
        await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/groups/coding-000001")
        await take(page, "view-group")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
