"""The picture of a topology: the same every time, inert, nothing drawn outside it, and the table says the same."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from console.views.topology_picture import WIDTH, topology_links, topology_svg
from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import fabric_read
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, sample

GOLDEN = Path(__file__).parent / "golden"


def crowd(workers: int, tools: int):
    """A fabric with that many workers, each with that many tools."""
    names = [f"worker-with-a-name-that-is-rather-long-{n}" for n in range(workers)]
    kit = [f"t{n}" for n in range(tools)]
    price = {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}
    return FabricSpec.model_validate(
        {
            "name": "crowd",
            "title": "Crowd",
            "models": [{"name": "m", "provider": "scripted", "price": price}],
            "tools": [{"name": tool, "target": "read_document"} for tool in kit],
            "agents": [{"name": name, "model": "m", "instructions": "Go.", "tools": kit} for name in names],
            "topology": {
                "workers": names,
                "plan": {"exit_criteria": ["done"], "briefs": [{"agent": names[0], "instructions": "Go."}]},
            },
            "policy": {"budget": {"run_usd_micros": 1}},
            "reviewers": ["owner"],
        }
    )


SPECS = {name: fabric_read(sample(name)).spec for name in SAMPLE_NAMES} | {"crowd": crowd(6, 5)}


@pytest.mark.parametrize("name", SPECS)
def test_it_is_drawn_as_it_was(name):
    assert topology_svg(SPECS[name]) == (GOLDEN / f"topology-{name}.svg").read_text().rstrip("\n")


@pytest.mark.parametrize(("workers", "tools"), [(1, 0), (1, 9), (2, 1), (3, 2), (4, 3), (5, 0), (9, 4), (64, 2)])
def test_nothing_is_drawn_outside_or_over_another(workers, tools):
    root = ET.fromstring(topology_svg(crowd(workers, tools)))
    height = int(root.attrib["viewBox"].split()[3])
    boxes = []
    for rect in root.iter("rect"):
        x, y, w, h = (int(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= WIDTH
        assert y >= 0
        assert y + h <= height
        if "node" in rect.attrib["class"]:
            boxes.append((x, y, w, h))
    assert len(boxes) == 4 + workers * (1 + min(tools, 3))
    for n, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:n]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_it_has_no_style_and_no_script():
    for spec in SPECS.values():
        assert not re.search(r"style=|<style|<script|\bon\w+=|href", topology_svg(spec))


@pytest.mark.parametrize("name", SPECS)
def test_the_table_names_everything_that_is_drawn(name):
    spec = SPECS[name]
    links = topology_links(spec)
    told = {link.source for link in links} | {link.target for link in links}
    used = set(spec.topology.roles().values())
    assert used <= told
    assert {tool for agent in used for tool in spec.agent(agent).tools if agent in spec.topology.workers} <= told


def test_a_model_id_does_not_act():
    spec = fabric_read(SMALL.replace("provider: scripted", 'provider: scripted\n    model: "<a>\\u202e&"')).spec
    svg = topology_svg(spec)
    assert "<a>" not in svg
    assert "\u202e" not in svg
    ET.fromstring(svg)
