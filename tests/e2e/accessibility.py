"""axe in a page: what it finds serious or critical."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from playwright.sync_api import Page

VENDOR = Path(__file__).parent / "vendor"
AXE = "axe-4.14.1.min.js"
GRAVE = ("serious", "critical")


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
    """What is serious or critical on the page as it stands; its contrast alone where the rest was looked at. The script is put into a page once."""
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
