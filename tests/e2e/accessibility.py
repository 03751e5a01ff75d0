"""axe in a page: what it finds serious or critical."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize

from tests import sets

VENDOR = Path(__file__).parent / "vendor"
AXE = "axe-4.14.1.min.js"
GRAVE = ("serious", "critical")
WIDE = ViewportSize(width=1440, height=900)
NARROW = ViewportSize(width=390, height=844)


@cache
def axe() -> str:
    """The script, which is the one that was taken in."""
    listed = dict(line.split()[::-1] for line in (VENDOR / "CHECKSUMS.sha256").read_text().splitlines())
    script = (VENDOR / AXE).read_bytes()
    if hashlib.sha256(script).hexdigest() != listed[AXE]:
        raise ValueError(f"{AXE} is not what {VENDOR.name}/CHECKSUMS.sha256 lists")
    return script.decode()


MINOR = "axe._audit.rules.filter(rule => rule.impact && !grave.includes(rule.impact)).map(rule => [rule.id, {enabled: false}])"
LOOK = f"""([options, grave]) => {{
  options.rules = options.runOnly ? {{}} : Object.fromEntries({MINOR});
  return axe.run(document, options).then(result => result.violations);
}}"""
"""A rule that has an impact gives it to what it finds: those that cannot find anything grave are left out."""


def findings(page: Page, *, contrast_alone: bool = False) -> list[str]:
    """Return what is serious or critical on the page as it stands; its contrast alone where the rest was looked at. The script is put into a page once."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    options = {"resultTypes": ["violations"]} | ({"runOnly": ["color-contrast"]} if contrast_alone else {})
    found = page.evaluate(LOOK, [options, GRAVE])
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}: {node['failureSummary'].splitlines()[-1].strip()}"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"][:3]
    ]


def in_both_themes(page: Page) -> list[str]:
    """Return what is grave on the page as it stands. What it is made of is the same in both themes; its colours are not."""
    themed(page, "light")
    found = findings(page)
    themed(page, "dark")
    return found + [f"dark: {one}" for one in findings(page, contrast_alone=True)]


def themed(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")


def at_both_sizes(page: Page) -> list[str]:
    """The same, wide and narrow. A colour does not depend on the width: wide it is light and narrow it is dark, and all four in the nightly set."""
    page.set_viewport_size(WIDE)
    if sets.is_nightly():
        found = in_both_themes(page)
        themed(page, "light")
        page.set_viewport_size(NARROW)
        found += [f"narrow: {one}" for one in findings(page)]
    else:
        themed(page, "light")
        found = findings(page)
        page.set_viewport_size(NARROW)
    themed(page, "dark")
    return found + [f"narrow, dark: {one}" for one in findings(page)]


def at_one_size(page: Page, n: int) -> list[str]:
    """Of many states one after the other the n-th: every second is looked at wide and light, the others narrow and dark, since what all are made of, and its
    colours, are the same; each at both sizes and in both themes in the nightly set.
    """
    if sets.is_nightly():
        return at_both_sizes(page)
    page.set_viewport_size(NARROW if n % 2 else WIDE)
    themed(page, "dark" if n % 2 else "light")
    return [f"{'narrow, dark: ' if n % 2 else ''}{one}" for one in findings(page)]


def looked_at(page: Page, addresses: Sequence[str]) -> dict[str, list[str]]:
    """Findings by address, of the pages that the set has (``sets.PAGES``). The browser gets the script once."""
    page.add_init_script(axe())
    found = {}
    for n, address in enumerate(sets.sample(addresses, sets.PAGES, f"{len(addresses)} from {addresses[0]}")):
        page.goto(address)
        found[address] = at_one_size(page, n)
    return {where: what for where, what in found.items() if what}
