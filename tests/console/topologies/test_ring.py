"""Nodes on a ring: all of them inside the picture, none over another, and an arrow each way that can be told apart."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from console.topologies.conversations import NODE_H, NODE_W, NODES_MAX, WIDTH, Arrow, Spot, ring


def drawn(count: int, arrows: list[Arrow]) -> ET.Element:
    spots = [Spot(f"n{n}", f"node {n}") for n in range(count)]
    made = ring(spots, arrows)
    return ET.fromstring(f'<svg viewBox="0 0 {WIDTH} {made.height}">{"".join(made.parts)}</svg>')


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 12, 20])
def test_nothing_is_drawn_outside_or_over_another(count: int) -> None:
    root = drawn(count, [])
    width, height = (int(part) for part in root.attrib["viewBox"].split()[2:])
    assert width == WIDTH
    boxes = [tuple(int(rect.attrib[key]) for key in ("x", "y")) for rect in root.iter("rect")]
    assert len(boxes) == min(count, NODES_MAX)
    assert all(x >= 0 and x + NODE_W <= width and y >= 0 and y + NODE_H <= height for x, y in boxes)
    for (ax, ay), (bx, by) in combinations(boxes, 2):
        assert abs(ax - bx) >= NODE_W or abs(ay - by) >= NODE_H


def test_two_ways_between_the_same_nodes_are_two_lines() -> None:
    root = drawn(3, [Arrow("n0", "n1", "1"), Arrow("n1", "n0", "2"), Arrow("n2", "n2", "3")])
    lines = [path.attrib["d"] for path in root.iter("path") if path.attrib["class"].startswith("e")]
    assert len(set(lines)) == 3
    labels = {
        text.text: (int(text.attrib["x"]), int(text.attrib["y"]))
        for text in root.iter("text")
        if text.attrib.get("text-anchor") == "middle"
    }
    assert set(labels) == {"1", "2", "3"}
    apart = abs(labels["1"][0] - labels["2"][0]) + abs(labels["1"][1] - labels["2"][1])
    assert apart > 20


def test_what_leads_to_a_node_that_has_no_room_is_left_out() -> None:
    root = drawn(NODES_MAX + 1, [Arrow("n0", f"n{NODES_MAX}"), Arrow("n0", "n1")])
    assert len([path for path in root.iter("path") if path.attrib["class"].startswith("e")]) == 1


def test_names_by_any_author_are_inert() -> None:
    made = ring([Spot("a", "<b>&", title="<script>")], [])
    assert "<script>" not in str(made.parts)
    assert "<b>" not in str(made.parts)
