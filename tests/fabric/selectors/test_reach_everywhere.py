"""A caller that asks for rows of a fabric in a member's name asks with the one condition on what they see: no query goes round it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fabric.selectors.reach import PATHS

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("fabric/selectors", "fabric/services", "console", "simulator/drills")
NARROWED = {*PATHS, "Notification"} - {"FabricEditor"}
ROUND = {
    "fabric/selectors/reach.py": "the condition itself",
    "console/site/access/fabric_roles.py": "finds out at which fabric a thing is, to say that it is not there",
    "fabric/services/fabrics/templates.py": "which names are taken",
    "fabric/services/drafts/beginnings.py": "which names are taken",
    "fabric/services/runs/projections.py": "the installation's own, which sees everything",
    "fabric/services/notifications/change_mail.py": "whom to tell of a change",
    "fabric/services/runs/stops.py": "whether a fabric that was asked for with the condition is stopped already",
    "fabric/services/reviews/assignments.py": "the row of a review that was asked for with the condition",
    "simulator/drills/services/drill_stop.py": "ends the drills of the whole workspace, for who may there",
}
"""Files that ask for rows of a workspace by its id alone, and why they may."""


def queries(path: Path) -> Iterator[tuple[str, int]]:
    """The models that a file asks for with the actor's workspace by name, in place of the condition."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("filter", "get")
        ):
            continue
        asked = ast.unparse(node.func.value)
        model = asked.partition(".objects")[0]
        by_id = any(
            one.arg == "workspace_id" and ast.unparse(one.value) == "actor.workspace_id" for one in node.keywords
        )
        if ".objects" in asked and by_id and model.removesuffix("Row") in NARROWED:
            yield model, node.lineno


def found() -> dict[str, list[tuple[str, int]]]:
    files = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    asked = {str(path.relative_to(ROOT)): list(queries(path)) for path in files if "migrations" not in path.parts}
    return {name: lines for name, lines in asked.items() if lines}


def test_no_query_goes_round_the_condition():
    assert {name: lines for name, lines in found().items() if name not in ROUND} == {}


def test_none_is_let_go_round_that_does_not():
    assert set(ROUND) - {"fabric/selectors/reach.py"} <= set(found())
