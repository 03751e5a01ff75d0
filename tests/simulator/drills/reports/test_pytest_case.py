"""A drill as a test: the text is run, and says of the drill what the drill said."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.fabrics.yaml.document import fabric_dump
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from simulator.drills.reports.pytest_case import how_to_run, name_file, write_pytest
from simulator.drills.selectors.drills import drill_get
from simulator.drills.services.drills import drill_ask
from simulator.scenarios.play import cells
from simulator.scenarios.spec.collection import FOLDER

ONE = (FailureType.PROVIDER, Tier.BATCH)
ROOT = Path(__file__).parents[4]


def driven(actor, small, seed=7):
    asked = drill_ask(actor=actor, fabric=small, cells=[ONE], seed=seed)
    batch_drill(asked.batch, "h")
    return drill_get(actor, asked.drills[0])


def written(actor, seen):
    return write_pytest(seen, fabric_dump(revision_get(actor, seen.fabric, seen.number).spec))


def run(text):
    """Runs the one test of a generated file; raises what it raises."""
    made = {}
    exec(compile(text, "generated", "exec"), made)
    (test,) = [value for name, value in made.items() if name.startswith("test_")]
    test()


def test_a_drill_that_passes_is_a_test_that_passes(actor, small):
    seen = driven(actor, small)
    text = written(actor, seen)
    assert seen.verdict == "pass"
    assert "def test_provider_failure_batch():" in text
    assert "Tier.BATCH, seed=7" in text
    run(text)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["cell", "scenario"])
def test_the_file_is_collected_and_passes_in_an_empty_environment_by_its_own_command(actor, small, tmp_path, of):
    seen = driven(actor, small)
    if of == "scenario":
        source = (FOLDER / "endpoint-down.toml").read_text()
        Drill.objects.filter(id=seen.id).update(scenario="endpoint-down", source=source)
        seen = drill_get(actor, seen.id)
    text, (path, *command) = written(actor, seen), shlex.split(how_to_run(seen))
    (tmp_path / name_file(seen)).write_text(text)
    assert how_to_run(seen) in text
    assert command[0] == "python"
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": path.split("=")[1].replace("FOLDER", str(ROOT)),
    }
    done = subprocess.run(
        [sys.executable, *command[1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_drill_that_deviates_is_a_test_that_fails_with_both_chains_and_passes_once_it_is_mended(
    actor, small, monkeypatch
):
    with monkeypatch.context() as broken:
        broken.setattr(cells, "until_put_back", lambda disturbing: disturbing)
        seen = driven(actor, small)
        assert seen.verdict == "deviated"
        text = written(actor, seen)
        with pytest.raises(AssertionError) as failed:
            run(text)
    assert f"expected {seen.expected}; observed {seen.observed}" in str(failed.value)
    assert "afterwards, once the failure is over" in str(failed.value)
    assert "When it was copied: deviated" in text
    run(text)


def test_a_scenario_is_played_with_its_own_text_and_parameters(actor, small):
    source = (FOLDER / "endpoint-down.toml").read_text()
    seen = driven(actor, small)
    row = Drill.objects.get(id=seen.id)
    row.scenario, row.source, row.parameters = "endpoint-down", source, json.dumps({})
    row.save()
    text = written(actor, drill_get(actor, seen.id))
    assert "def test_endpoint_down_batch():" in text
    run(text)


@pytest.mark.parametrize("hostile", ['"""\nimport os\n', "\\", "a\0b\n", "no end", "é \u202e\n", '"'])
def test_whatever_a_fabric_or_a_scenario_holds_stays_a_text(actor, small, hostile):
    seen = driven(actor, small)
    tree = ast.parse(write_pytest(seen, hostile))
    (value,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(value) == hostile


def test_a_live_drill_is_no_test(actor, small):
    seen = driven(actor, small)
    Drill.objects.filter(id=seen.id).update(mode="live")
    with pytest.raises(Refused, match="no test repeats that") as refused:
        written(actor, drill_get(actor, seen.id))
    assert refused.value.code == "conflict"
