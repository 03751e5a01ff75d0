"""Markdown that a model or a person wrote, made fit for a page. The one place in which a text becomes markup (reliability.md 2.11).

Twice inert: markdown-it reads neither HTML nor images, and nh3 lets through a short list of tags with no attribute but an https address. Both
must fail before anything acts; the page's content security policy is the third.
"""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from console.templatetags.said import prose

CHARS_MAX = 200_000
"""Characters rendered; what is longer is cut, and says so."""
TAGS = frozenset(
    {
        *(
            "p",
            "br",
            "hr",
            "h3",
            "h4",
            "h5",
            "h6",
            "strong",
            "em",
            "s",
            "code",
            "pre",
            "blockquote",
            "ul",
            "ol",
            "li",
            "a",
        ),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
)

_reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 40}).enable(
    ["table", "strikethrough"]
)
_reader.disable(["image", "html_block", "html_inline"])


def rendered(text: object) -> SafeString:
    """The text as markup: headings from the third level on, lists, tables, code, links to https addresses. Nothing that loads or acts."""
    shown = prose(text)
    more = len(shown) - CHARS_MAX
    if more > 0:
        shown = f"{shown[:CHARS_MAX]}\n\n... {more:,} more characters"
    html = _below_the_page(_reader.render(shown))
    clean = nh3.clean(
        html,
        tags=set(TAGS),
        attributes={"*": set(), "a": {"href"}},
        attribute_filter=_only_far,
        url_schemes={"https"},
        link_rel="noopener noreferrer nofollow",
        strip_comments=True,
    )
    return SafeString(clean)


def _only_far(tag: str, attribute: str, value: str) -> str | None:
    """A link leads to an https address; one within the console would speak with the console's voice."""
    return value if attribute == "rel" or value.startswith("https://") else None


def _below_the_page(html: str) -> str:
    """Headings of the text are below those of the page: its first level is the page's third."""
    for level in (4, 3, 2, 1):
        html = html.replace(f"<h{level}>", f"<h{level + 2}>").replace(f"</h{level}>", f"</h{level + 2}>")
    return html
