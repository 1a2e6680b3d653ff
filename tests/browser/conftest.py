"""A Chromium, and Episodes to look at."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.chromium import CHROMIUM, ensure
from tests.browser.world import World, world


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, installed if it is missing."""
    ensure(print)
    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(executable_path=CHROMIUM)
        yield found
        await found.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page; what goes wrong in its scripts fails the test."""
    found = await browser.new_page()
    wrong: list[str] = []
    found.on("pageerror", lambda error: wrong.append(str(error)))
    yield found
    await found.close()
    assert wrong == []


@pytest.fixture
async def episodes() -> AsyncIterator[World]:
    """Episodes of the test's own."""
    async with world() as found:
        yield found
