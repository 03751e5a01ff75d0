"""Renders untrusted Markdown for a page. Only this module turns a text into markup (docs/security.md).

It is made safe twice: markdown-it reads neither HTML nor images, and nh3 lets through a short list of tags with no
attribute but an https address. Both must fail before anything acts; the page's content security policy is the third.
"""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from console.templatetags.said import prose

CHARS_MAX = 200_000
"""Number of characters rendered; a longer text is cut, with a remark."""
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


def render_markdown(text: object) -> SafeString:
    """Return the text as markup: headings from level three, lists, tables, code, https links. Nothing loads or acts."""
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
    """Keep only https addresses of links: a link into the console would look like one of the console."""
    return value if attribute == "rel" or value.startswith("https://") else None


def _below_the_page(html: str) -> str:
    """Headings of the text are below those of the page: its first level is the page's third."""
    for level in (4, 3, 2, 1):
        html = html.replace(f"<h{level}>", f"<h{level + 2}>").replace(f"</h{level}>", f"</h{level + 2}>")
    return html
