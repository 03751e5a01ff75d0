"""A stored drill as a test of pytest: the fabric, the seed and the cell or the scenario, by the simulator's published functions. Pure: a drill in, text out.

The test asserts what the drill was to show, so it passes where the drill passed; of one that deviated it fails until that is mended.
"""

from __future__ import annotations

import json
import re

from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.errors import Refused
from simulator.drills.models import VIRTUAL
from simulator.drills.selectors import DrillView

NAMED = re.compile(r"[^a-z0-9]+")
QUOTES = '"""'


def pytest_of(seen: DrillView, fabric: str) -> str:
    """The text of the test. ``fabric``: the drilled revision as YAML. Refused conflict for a live drill: it is no test of one process."""
    if seen.mode != VIRTUAL:
        message = "a live drill ran on this installation's workers and clock, and no test repeats that: copy one in virtual time"
        raise Refused(message, code="conflict", field="mode")
    return _of_a_scenario(seen, fabric) if seen.scenario else _of_a_cell(seen, fabric)


def _of_a_cell(seen: DrillView, fabric: str) -> str:
    assert seen.failure is not None
    imports = [
        "from fabric.core.taxonomy import FailureType, Tier",
        "from fabric.services.fabric_yaml import fabric_read",
        "from simulator.drills.cells import drill",
    ]
    body = [
        f"spec = fabric_read(FABRIC, origin={_quoted(f'{seen.fabric}.yaml')}).spec",
        f"cell = drill(spec, FailureType.{FailureType(seen.failure).name}, Tier.{Tier(seen.tier).name}, seed={seen.seed})",
        'told = f"{cell.why}; expected {cell.expected}; observed {cell.observed}"',
        'assert cell.verdict == "pass", told',
    ]
    return _written(seen, imports, {"FABRIC": fabric}, f"{seen.failure}_{seen.tier}", body)


def _of_a_scenario(seen: DrillView, fabric: str) -> str:
    imports = [
        "from fabric.core.taxonomy import Tier",
        "from fabric.services.fabric_yaml import fabric_read",
        "from simulator.scenarios.playing import play",
        "from simulator.scenarios.reading import read",
    ]
    given = f", overrides={dict(seen.parameters)!r}" if seen.parameters else ""
    body = [
        f"spec = fabric_read(FABRIC, origin={_quoted(f'{seen.fabric}.yaml')}).spec",
        f"scenario = read(SCENARIO, origin={_quoted(f'{seen.scenario}.toml')})",
        f"played = play(spec, scenario, Tier.{Tier(seen.tier).name}, seed={seen.seed}{given})",
        'told = f"{played.why}; expected {played.expected}; observed {played.observed}"',
        'assert played.verdict == "pass", told',
    ]
    return _written(seen, imports, {"FABRIC": fabric, "SCENARIO": seen.source}, f"{seen.scenario}_{seen.tier}", body)


def _written(seen: DrillView, imports: list[str], texts: dict[str, str], name: str, body: list[str]) -> str:
    what = seen.scenario or str(seen.failure)
    head = f"{what} x {seen.tier} of {seen.of}, seed {seen.seed}: the drill {seen.id}.\n"
    head += f"\nWhen it was copied: {seen.verdict or seen.status}; observed: {_line(seen.observed) or 'nothing'}.\n"
    constants = "\n\n".join(f"{each} = {_text(text)}" for each, text in texts.items())
    function = f"def test_{NAMED.sub('_', name.lower()).strip('_')}():\n" + "\n".join(f"    {line}" for line in body)
    return f"{_text(head)}\n\n{chr(10).join(imports)}\n\n{constants}\n\n\n{function}\n"


def _line(text: str) -> str:
    return " ".join(text.split())[:400]


def _quoted(text: str) -> str:
    return json.dumps(text)


def _text(text: str) -> str:
    """A literal that is the text again, as readable as it can be."""
    if any(not one.isprintable() and one != "\n" for one in text) or not text.endswith("\n"):
        return repr(text)
    inner = text.replace("\\", "\\\\").replace(QUOTES, '\\"\\"\\"')
    return f"{QUOTES}\\\n{inner}{QUOTES}"
