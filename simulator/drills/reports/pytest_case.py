"""Writes a stored drill as a pytest module, with the simulator's published functions. Pure functions.

The test asserts the drill's promise. So it passes if the drill passed; for a deviation it fails until that is fixed.
"""

from __future__ import annotations

import json
import re

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.errors import Refused
from simulator.drills.models.tables import VIRTUAL
from simulator.drills.selectors.drill_views import DrillView

NAMED = re.compile(r"[^a-z0-9]+")
QUOTES = '"""'
READY = """\
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()
"""
"""Prepares Django before the imports, so that the file runs anywhere that has Fabric Flow on its path."""


def write_pytest(seen: DrillView, fabric: str) -> str:
    """Return the text of the test. ``fabric``: the drilled revision as YAML.

    Raises Refused conflict for a live drill, which is no test of one process.
    """
    if seen.mode != VIRTUAL:
        message = "a live drill ran on this installation's workers and clock, and no test repeats that: copy one in simulated time"
        raise Refused(message, code="conflict", field="mode")
    return _write_scenario_test(seen, fabric) if seen.scenario else _write_cell_test(seen, fabric)


def _write_cell_test(seen: DrillView, fabric: str) -> str:
    assert seen.failure is not None
    imports = [
        "from fabric.core.values.taxonomy import FailureType, Tier",
        "from fabric.services.fabrics.yaml.document import fabric_read",
        "from simulator.scenarios.play.cells import drill",
    ]
    body = [
        f"spec = fabric_read(FABRIC, origin={_quote_text(f'{seen.fabric}.yaml')}).spec",
        f"cell = drill(spec, FailureType.{FailureType(seen.failure).name}, Tier.{Tier(seen.tier).name}, seed={seen.seed})",
        'told = f"{cell.why}; expected {cell.expected}; observed {cell.observed}"',
        'assert cell.verdict == "pass", told',
    ]
    return _write_module(seen, imports, {"FABRIC": fabric}, f"{seen.failure}_{seen.tier}", body)


def _write_scenario_test(seen: DrillView, fabric: str) -> str:
    imports = [
        "from fabric.core.values.taxonomy import Tier",
        "from fabric.services.fabrics.yaml.document import fabric_read",
        "from simulator.scenarios.play.player import play",
        "from simulator.scenarios.spec.toml import parse_scenario",
    ]
    given = f", overrides={dict(seen.parameters)!r}" if seen.parameters else ""
    body = [
        f"spec = fabric_read(FABRIC, origin={_quote_text(f'{seen.fabric}.yaml')}).spec",
        f"scenario = parse_scenario(SCENARIO, origin={_quote_text(f'{seen.scenario}.toml')})",
        f"played = play(spec, scenario, Tier.{Tier(seen.tier).name}, seed={seen.seed}{given})",
        'told = f"{played.why}; expected {played.expected_decisions}; observed {played.observed_chain}"',
        'assert played.verdict == "pass", told',
    ]
    return _write_module(
        seen, imports, {"FABRIC": fabric, "SCENARIO": seen.source}, f"{seen.scenario}_{seen.tier}", body
    )


def _write_module(seen: DrillView, imports: list[str], texts: dict[str, str], name: str, body: list[str]) -> str:
    what = seen.scenario or str(seen.failure)
    head = f"{what} x {seen.tier} of {seen.drilled_fabric}, seed {seen.seed}: the drill {seen.id}.\n"
    head += f"\nWhen it was copied: {seen.verdict or seen.status}; observed: {_line(seen.observed) or 'nothing'}.\n"
    constants = "\n\n".join(f"{each} = {_text(text)}" for each, text in texts.items())
    function = f"def test_{NAMED.sub('_', name.lower()).strip('_')}():\n" + "\n".join(f"    {line}" for line in body)
    head += f"\n{HOW}: {how_to_run(seen)}\n"
    return f"{_text(head)}\n\n{READY}\n{chr(10).join(imports)}\n\n{constants}\n\n\n{function}\n"


def name_file(seen: DrillView) -> str:
    """Return the name of the file."""
    return f"test_{NAMED.sub('_', str(seen.scenario or seen.failure).lower())}_{seen.tier}.py"


HOW = "Run it with Fabric Flow's Python; FOLDER is the folder of its source"


def how_to_run(seen: DrillView) -> str:
    """Return the command that runs the file, from any folder."""
    return f"PYTHONPATH=FOLDER python -m pytest {name_file(seen)}"


def _line(text: str) -> str:
    return " ".join(text.split())[:400]


def _quote_text(text: str) -> str:
    return json.dumps(text)


def _text(text: str) -> str:
    """Return the text as a readable literal."""
    if any(not one.isprintable() and one != "\n" for one in text) or not text.endswith("\n"):
        return repr(text)
    inner = text.replace("\\", "\\\\").replace(QUOTES, '\\"\\"\\"')
    return f"{QUOTES}\\\n{inner}{QUOTES}"
