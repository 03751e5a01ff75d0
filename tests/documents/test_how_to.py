"""Each piece of a fabric that a page shows is one: put into a small fabric, it can be published."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from console.launch.processes.data_directory import ROOT
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.checks import fabric_lint
from tests.fabric.services.world import SMALL, actor
from tests.people import member

__all__ = ["actor"]
ELSEWHERE = {"add-python-functions.md", "add-graph-rules.md"}
"""Pages whose pieces are published by ``tests/fabric/tools/functions/test_installed_tools.py`` and ``test_graph_rules.py``, with what they need."""
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def pieces() -> list[Any]:
    found = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path.name in ELSEWHERE:
            continue
        for indent, text in BLOCK.findall(path.read_text()):
            piece = yaml.safe_load(re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
            if isinstance(piece, dict) and set(piece) <= set(FabricSpec.model_fields):
                found.append(pytest.param(piece, id=f"{path.stem}-{'-'.join(piece)}"))
    return found


def put_into(small: dict[str, Any], piece: dict[str, Any]) -> dict[str, Any]:
    """A fabric with a piece: lists are added to, tables are filled in."""
    made = dict(small)
    for name, value in piece.items():
        before = made.get(name)
        if isinstance(value, list) and isinstance(before, list):
            made[name] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            made[name] = put_into(before, value)
        else:
            made[name] = value
    return made


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("piece", pieces())
def test_a_piece_of_a_fabric_is_one(piece: dict[str, Any], actor: Actor) -> None:
    member("vera", "owner", "reviewer", "finance", "safety")  # Four eyes want a second person.
    source = yaml.safe_dump(put_into(yaml.safe_load(SMALL), piece), sort_keys=False)
    assert [str(one) for one in fabric_lint(actor=actor, source=source).problems] == []


def test_there_are_pieces() -> None:
    assert len(pieces()) >= 4
