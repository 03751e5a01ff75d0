"""The tokens of a run, a stage, an agent or a model by their kinds, in words and in money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fabric.core.cost import Price
from fabric.core.token_parts import KINDS
from fabric.selectors.display.calls import PART_WORDS
from fabric.selectors.run_story import RunStory
from fabric.selectors.story_parts import Tally

KIND_WORDS: Mapping[str, str] = MappingProxyType({kind: PART_WORDS.get(kind, kind) for kind in KINDS})
UNTOLD_WORDS = "kind not known"


@dataclass(frozen=True, slots=True)
class KindShare:
    """One kind of a run's tokens."""

    name: str
    tokens: int
    cost: int | None
    """Micro-dollars at the prices of the run's revision; None: a model that used it has no price at hand."""


def part_words(tally: Tally) -> str:
    """``9,000 from the cache, 300 reasoning``: the kinds beside plain input and output; empty: there were none."""
    return ", ".join(f"{tally.kinds[kind]:,} {says}" for kind, says in PART_WORDS.items() if tally.kinds[kind])


def kind_shares(story: RunStory, prices: Mapping[str, Price]) -> list[KindShare]:
    """The kinds that the run used, in the order of ``KINDS``; then the tokens without a kind in the journal, at the rest of the cost; then what tools cost."""
    total = story.total
    tools = [KindShare(f"calls of {name}", 0, cost) for name, cost in total.tools.items()]
    found = [
        KindShare(KIND_WORDS[kind], total.kinds[kind], _cost(story, kind, prices))
        for kind in KINDS
        if total.kinds[kind]
    ]
    if not total.untold:
        return [*found, *tools]
    known = [one.cost for one in found if one.cost is not None]
    of_models = total.cost_usd_micros - total.tools.total()
    rest = max(0, of_models - sum(known)) if len(known) == len(found) else None
    return [*found, KindShare(UNTOLD_WORDS, total.untold, rest), *tools]


def _cost(story: RunStory, kind: str, prices: Mapping[str, Price]) -> int | None:
    used = {name: tally.kinds[kind] for name, tally in story.by_model.items() if tally.kinds[kind]}
    if sum(used.values()) != story.total.kinds[kind] or not used.keys() <= prices.keys():
        return None
    return sum(prices[name].costs_by_kind({kind: tokens})[kind] for name, tokens in used.items())
