"""Shows chains of decisions, texts of ``expectation.Chain``, in words."""

from __future__ import annotations

from django import template

from console.templatetags.marks import STATES

register = template.Library()

SEPARATOR, NOTHING, SKIPS = " > ", "nothing decided", "skips "
"""Text of ``expectation.Chain``: its separator, its word for an empty chain, and that before a skipped rung."""


def split_chain(chain: str) -> tuple[list[str], str]:
    """Return the links of ``retry > surface > failed``, and its state. Both are empty for any other text."""
    *links, state = chain.split(SEPARATOR)
    return ([], "") if not links or state not in STATES else ([link for link in links if link != NOTHING], state)


def link_words(link: str) -> str:
    """Return a link of a chain in words: ``wait for breaker``, ``retry, skipped``."""
    words = link.removeprefix(SKIPS).replace("_", " ")
    return f"{words}, skipped" if link.startswith(SKIPS) else words


def end_words(state: str) -> str:
    """Return the end of a chain in words: ``run failed``."""
    return f"run {STATES[state][0].lower()}"


@register.filter
def chain_words(chain: str) -> str:
    """Return a chain in words: ``retry → wait for breaker → run failed``. Any other text stays as it is."""
    links, state = split_chain(chain)
    return " → ".join([*map(link_words, links), end_words(state)]) if state else chain
