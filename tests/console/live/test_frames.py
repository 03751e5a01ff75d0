"""Frames: what a page is told, byte by byte."""

from __future__ import annotations

import json

from console.live.frames import LiveHead, LiveRow, Panel, frame

HEAD = LiveHead(9, ended=False, panels=(Panel("head", "v1", "<p>\u2013</p>"),))


def made(rows, head=HEAD, panels=()):
    return frame(run_id="r", after=3, rows=rows, panels=panels, versions=head.versions, at_ms=17, head=head)


def test_a_frame_is_ascii_whatever_its_rows_say():
    """Text that a server encodes once for each socket."""
    said = "\u2013 \u6f22\u5b57 \U0001f600"
    text = made([LiveRow(4, f"<tr>{said}</tr>")], panels=HEAD.panels).text
    assert text.isascii()
    assert said in json.loads(text)["content"]


def test_what_a_frame_says_of_itself():
    found = json.loads(made([LiveRow(4, "<tr></tr>"), LiveRow(5, "<tr></tr>")]).text)
    assert {name: found[name] for name in found if name != "content"} == {
        "after": 3,
        "seq": 5,
        "at": 17,
        "panels": "v1",
        "more": 4,
    }
    assert 'data-live="live"' in found["content"]
    assert "4 more" in found["content"]


def test_the_end_is_said_only_with_the_last_row():
    ended = LiveHead(5, ended=True)
    assert 'data-live="live"' in made([LiveRow(4, "")], ended).text.replace("\\", "")
    assert 'data-live="ended"' in made([LiveRow(4, ""), LiveRow(5, "")], ended).text.replace("\\", "")


def test_rows_that_are_left_out_are_a_link_to_exactly_them():
    content = json.loads(made([LiveRow(8, "<tr></tr>")]).text)["content"]
    assert 'data-first="4" data-last="7"' in content
    assert 'href="/runs/r?before=8#events">4 more</a>' in content
