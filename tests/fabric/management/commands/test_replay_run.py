"""`replay_run`: one line of JSON, exit code 1 on a difference."""

import pytest
from django.core.management import CommandError, call_command

from fabric.models import Run
from tests.fabric.management.console import command
from tests.fabric.services.world import ran


def test_all_runs_agree(actor, small, doubtful):
    runs = [ran(actor, small), ran(actor, doubtful)]
    done = command("replay_run", "--all")
    assert done.code == 0
    events = sum(run.last_seq for run in runs)
    assert done.last == {"runs": 2, "events": events, "differences": 0, "differing": []}
    assert len(done.out.splitlines()) == 3
    assert len(command("replay_run", "--all", "--json").out.splitlines()) == 1


def test_a_difference_is_named_and_is_exit_code_1(actor, small):
    run, other = ran(actor, small), ran(actor, small)
    Run.objects.filter(id=run.id).update(tokens=7)
    done = command("replay_run", "--all", "--json")
    assert (done.code, done.last["runs"], done.last["differences"]) == (1, 2, 1)
    (differing,) = done.last["differing"]
    assert differing == {"run_id": run.id, "differences": [f"the run's row has tokens 7, the journal {run.tokens}"]}
    assert command("replay_run", run.id).code == 1
    assert command("replay_run", other.id).code == 0


def test_bad_input(actor):
    done = command("replay_run", "nothing")
    assert (done.code, done.out) == (2, "")
    assert "there is no run 'nothing'" in done.err
    with pytest.raises(CommandError):
        call_command("replay_run")
