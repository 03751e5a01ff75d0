"""The one function that makes markup of a text: nothing in it loads, acts or leads into the console."""

from __future__ import annotations

import re

import pytest

from console.pages.texts import markdown
from console.pages.texts.markdown import CHARS_MAX, render_markdown


def test_what_it_makes():
    made = render_markdown(
        "# Costs\n\nThe budget is **40** dollars:\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | `2` |\n"
    )
    assert made.startswith("<h3>Costs</h3>\n<p>The budget is <strong>40</strong> dollars:</p>\n<ul>\n<li>one</li>")
    assert "<td><code>2</code></td>" in made


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "text <b onclick=alert(1)>bold</b> <svg/onload=alert(1)>",
        "<iframe src=https://e.org></iframe>",
        "<style>body{display:none}</style>",
        "<form action=https://e.org><button>send</button></form>",
        '<a href="javascript:alert(1)">x</a>',
        "![picture](https://e.org/beacon.png)",
        "![picture][1]\n\n[1]: https://e.org/beacon.png",
        "<!-- a comment --> <hx-partial hx-target='#main'>x</hx-partial>",
    ],
)
def test_html_and_images_are_text(text):
    made = render_markdown(text)
    assert re.findall(r"<(?!/?(?:p|a)\b)[a-z!/]", made) == []
    assert re.findall(r"<[^>]*\b(?:on\w+|src|style|hx-\w+|action|class|id)=", made) == []


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "&#106;avascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "http://e.org",
        "//e.org/x",
        "/runs",
        "#main",
        "file:///etc/passwd",
    ],
)
def test_a_link_that_is_not_https_is_no_link(address):
    assert "href" not in render_markdown(f"[click]({address}) <{address}>")


def test_an_https_link_tells_no_site_where_it_was_clicked():
    made = render_markdown('[ok](https://e.org/a?b=1&c=2 "a title")')
    assert made == '<p><a href="https://e.org/a?b=1&amp;c=2" rel="noopener noreferrer nofollow">ok</a></p>\n'


def test_what_cannot_be_seen_is_shown_by_its_number():
    made = render_markdown("safe \u202egnp.exe\u202c \x1b[31mred\x00")
    assert "\u202e" not in made
    assert "⟨U+202E⟩gnp.exe" in made
    assert "⟨U+001B⟩" in made


def test_headings_stand_below_those_of_the_page():
    assert re.findall(r"<h\d>", render_markdown("# a\n\n## b\n\n### c\n\n#### d\n\n##### e\n\n###### f")) == [
        *("<h3>", "<h4>", "<h5>", "<h6>", "<h5>", "<h6>"),
    ]


def test_a_very_long_text_is_cut_and_says_so():
    made = render_markdown("word " * CHARS_MAX)
    assert f"... {4 * CHARS_MAX:,} more characters" in made


def test_deep_nesting_is_no_trap():
    assert len(render_markdown(">" * 5_000 + " deep " + "[" * 5_000)) < 50_000


def test_each_of_the_two_guards_holds_without_the_other():
    assert "<img" not in markdown._reader.render("![picture](https://e.org/beacon.png)")
    assert "<script" not in markdown._reader.render("<script>alert(1)</script>")
