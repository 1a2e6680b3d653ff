"""What a user sees and does in the web view."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.world import World, conversation
from tests.unit.records import NAMESPACE

TURNS = 200


@pytest.fixture(autouse=True)
def patience() -> None:
    """A busy machine is no wrong page."""
    expect.set_options(timeout=60_000)


async def test_the_list_is_filtered_and_kept_up_to_date(page: Page, episodes: World) -> None:
    for name in ("first", "second"):
        episodes.add_episode(name)
    await episodes.finish("first", conversation(2))
    await page.goto(episodes.url)
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(2)
    await page.get_by_label("verdict").select_option("Passed")
    await page.get_by_role("button", name="show").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("first")
    await episodes.finish("second", conversation(2))
    await expect(rows).to_have_count(2)
    await page.get_by_role("link", name="second").click()
    await expect(page.locator("h1")).to_contain_text("second Passed reward 1")


async def test_an_episode_is_followed_until_its_verdict(page: Page, episodes: World) -> None:
    uid = episodes.add_episode()
    said = conversation(4)
    episodes.said[uid] = said[:2]
    await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/episodes/hello")
    await expect(page.locator("h1")).to_contain_text("Running")
    turns = page.locator("li.turn")
    await expect(turns).to_have_count(0)
    episodes.said[uid] = said[:3]
    await expect(turns).to_have_count(1)
    await expect(turns).to_contain_text("no answer yet")
    episodes.said[uid] = said[:5]
    await expect(turns).to_have_count(2)
    await expect(turns.first).to_contain_text("[exit code 0]")
    await expect(turns.last).to_contain_text("part 1")
    await episodes.finish("hello", said)
    await expect(page.locator("h1")).to_contain_text("hello Passed")
    await expect(turns).to_have_count(4)


async def test_tokens_are_a_heat_map(page: Page, episodes: World) -> None:
    episodes.add_episode()
    await episodes.finish("hello", conversation(3))
    await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/episodes/hello")
    turn = page.locator("li.turn").first
    await turn.get_by_text("tokens", exact=True).click()
    tokens = turn.locator(".heat span")
    await expect(tokens).to_have_count(150)
    await expect(turn).to_contain_text("count all at once")
    assert await tokens.nth(51).text_content() == " the"
    title = await tokens.nth(51).get_attribute("title")
    value = r"-\d\.\d{4}"
    known = f"logprob {value}, teacher {value}, A_t -2\\.\\d{{4}}, weights step-0"
    assert title and re.fullmatch(f"position 51, id 51, {known}", title)
    colours = {
        await tokens.nth(at).evaluate("token => getComputedStyle(token).backgroundColor")
        for at in (0, 55, 70, 85, 95, 140)
    }
    assert len(colours) >= 4, "one colour for tokens of different advantage"
    bars = page.locator(".waterfall .bar")
    await expect(bars).to_have_count(8)
    await expect(bars.nth(3)).to_contain_text(re.compile(r"agent\s+30 s"))


async def test_a_group_side_by_side_and_the_curves_of_a_run(page: Page, episodes: World) -> None:
    for name, reward in (("first", 1.0), ("second", 0.0)):
        episodes.add_episode(name)
        await episodes.finish(name, conversation(3), reward=reward)
    await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/groups/coding-000001")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await expect(page.locator("section")).to_have_count(2)
    await expect(page.locator("tbody")).to_contain_text("+0.5")
    await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/runs/coding")
    await expect(page.locator("figure")).to_have_count(5)
    await expect(page.locator("figure").first).to_contain_text("reward 0.5")


async def test_a_long_trajectory_is_usable(page: Page, episodes: World) -> None:
    """200 turns and 30,000 tokens; `make bench BENCH=view` says how fast."""
    episodes.add_episode()
    await episodes.finish("hello", conversation(TURNS))
    await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/episodes/hello")
    turns = page.locator("li.turn")
    await expect(turns).to_have_count(TURNS)
    await expect(page.locator("dl")).to_contain_text("tokens 3e+04")
    last = turns.nth(TURNS - 2)
    await last.scroll_into_view_if_needed()
    await last.get_by_text("tokens", exact=True).click()
    await expect(last.locator(".heat span")).to_have_count(150)
    await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/episodes/hello#entry-150")
    await expect(page.locator("#entry-150")).to_be_in_viewport()


async def test_a_wrong_address_says_what_is_wrong(page: Page, episodes: World) -> None:
    answer = await page.goto(f"{episodes.url}/namespaces/{NAMESPACE}/groups/nothing")
    assert answer is not None and answer.status == 404
    await expect(page.locator("main")).to_contain_text("has no results of a group nothing")
