"""A run's story and its token kinds count the tools that have a price."""

from __future__ import annotations

from fabric.selectors.runs.story.figures import kind_shares
from fabric.selectors.runs.story.fold import RunStory
from tests.fabric.core.budgets.test_tool_prices import PRICE, priced, spent
from tests.fabric.core.fabrics import PRICES


def test_the_story_says_what_tools_cost():
    world = priced({})
    story = RunStory("run-1")
    for event in world.events:
        story.add(event)
    assert (story.total.cost_usd_micros, story.total.tools) == (spent(world), {"look": PRICE})
    assert story.by_agent["worker"].tools == {"look": PRICE}
    shares = kind_shares(story, PRICES)
    assert (shares[-1].name, shares[-1].cost) == ("calls of look", PRICE)
    assert sum(one.cost or 0 for one in shares) == spent(world)
