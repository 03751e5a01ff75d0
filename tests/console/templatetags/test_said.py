import json

import pytest
from django.template import Context, Template

from console.templatetags.said import JSON_CHARS_MAX, as_json, as_path, inert, prose

ACTING = [
    "\x00",
    "\x1b",
    "\x07",
    "\x7f",
    "\x9b",
    "\u202a",
    "\u202e",
    "\u2066",
    "\u2069",
    "\u200b",
    "\ufeff",
    "\u2060",
    "\U000e0041",
    "\u2028",
]


@pytest.mark.parametrize("char", ACTING)
@pytest.mark.parametrize("shown", [prose, inert, as_json])
def test_what_acts_or_hides_is_shown_by_number(shown, char):
    text = shown(f"a{char}b")
    assert char not in text
    assert f"U+{ord(char):04X}" in text or f"\\u{ord(char):04x}" in text


def test_what_is_seen_stays():
    text = "Tab\tand\nnewline, ümläute, 中文, العربية, 🙂 — “quotes”"
    assert prose(text) == inert(text) == text


def test_joiners_stay_in_prose_and_are_shown_where_a_person_decides():
    family = "👩\u200d👧 می\u200cخواهم"
    assert prose(family) == family
    assert "⟨U+200D⟩" in inert(family)


def test_every_kind_of_line_end_is_one():
    assert prose("a\r\nb\rc") == "a\nb\nc"


def test_json_is_escaped_like_any_text():
    page = Template("{% load said %}{{ value|as_json }}|{{ text|prose }}").render(
        Context({"value": {"<script>": "</pre>"}, "text": "<b>"})
    )
    assert page == "{\n  &quot;&lt;script&gt;&quot;: &quot;&lt;/pre&gt;&quot;\n}|&lt;b&gt;"


def test_a_very_long_value_says_what_is_left_out():
    shown = as_json(["x" * (JSON_CHARS_MAX + 50)])
    assert len(shown) < JSON_CHARS_MAX + 100
    assert shown.endswith("more characters")
    assert json.loads(as_json({"a": [1, None]})) == {"a": [1, None]}


def test_a_path_may_break_after_a_dot_or_an_underscore_and_is_escaped():
    assert as_path("policy.four_eyes.0") == "policy.<wbr>four_<wbr>eyes.<wbr>0"
    assert as_path("a..b__c._") == "a..<wbr>b__<wbr>c._"
    assert as_path("<b>.x\u202e") == f"&lt;b&gt;.<wbr>x{inert(chr(0x202E))}"
