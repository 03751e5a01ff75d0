import io
import json
import signal
import sys
from subprocess import PIPE, Popen

import pytest
from django.core.management import call_command

from fabric.worker.spending.grants import GrantRequest
from simulator.swarm.setups import draw
from simulator.world import campaign as campaigns
from simulator.world.breakers import VirtualDesk
from simulator.world.world import World


def simulate(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("simulate", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_it_ends_with_one_line_of_json_and_names_the_seed_first():
    code, out, err = simulate("--seeds", "5", "--start", "3", "--json")
    found = json.loads(out.splitlines()[-1])
    assert code == 0
    assert list(found) == ["seeds", "violations", "violating_seeds", "seeds_per_s", "start", "next_seed"]
    assert (found["seeds"], found["violations"], found["violating_seeds"]) == (5, 0, [])
    assert (found["start"], found["next_seed"]) == (3, 8)
    assert found["seeds_per_s"] > 0
    assert err.splitlines()[0].startswith("seed 3: 5 seeds")


def test_without_json_it_says_the_same_in_words():
    code, out, _ = simulate("--seeds", "2")
    assert code == 0
    assert out.startswith("2 seeds, 0 violations, ")


def test_a_violation_is_told_with_what_runs_it_again():
    code, out, err = simulate("--seeds", "40", "--plant", "retry_moves_deadline", "--json")
    found = json.loads(out)
    seed = found["violating_seeds"][0]
    assert code == 1
    assert found["violations"] >= len(found["violating_seeds"]) > 0
    assert f"python3 manage.py dev simulate --seeds 1 --start {seed} --plant retry_moves_deadline" in err
    again, _, told = simulate("--seeds", "1", "--start", str(seed), "--plant", "retry_moves_deadline")
    assert again == 1
    assert told.splitlines()[1] in err.splitlines()


def test_it_stops_at_the_first_violation_and_says_what_is_left():
    arguments = ("--seeds", "400", "--start", "2", "--plant", "retry_moves_deadline")
    code, out, err = simulate(*arguments, "--stop", "--json")
    found = json.loads(out)
    [seed] = found["violating_seeds"]
    assert (code, found["next_seed"], found["seeds"]) == (1, seed + 1, seed - 1)
    rest = f"python3 manage.py dev simulate --seeds {401 - seed} --start {seed + 1} --plant retry_moves_deadline"
    assert f"stopped: seeds 2 to {seed} were run (the rest: {rest}" in err.splitlines()[-1]


def test_a_signal_ends_it_with_what_was_run():
    arguments = ["dev", "simulate", "--seeds", "100000", "--start", "7", "--jobs", "2", "--json"]
    with Popen([sys.executable, "manage.py", *arguments], stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stderr.readline().startswith("seed 7: 100000 seeds")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    found = json.loads(out)
    assert (process.returncode, found["violations"]) == (128 + signal.SIGTERM, 0)
    assert found["next_seed"] == 7 + found["seeds"] < 100_007
    assert f"--seeds {100_000 - found['seeds']} --start {found['next_seed']}" in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("interrupted: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_seed_under_way_and_raises_nothing_there(monkeypatch, number):
    def signalled(seeds, *_):
        signal.raise_signal(number)
        yield from map(campaigns.simulate, seeds)

    monkeypatch.setattr("simulator.drills.management.commands.simulate.campaign", signalled)
    code, out, err = simulate("--seeds", "3", "--json")
    found = json.loads(out)
    assert (code, found["seeds"], found["next_seed"]) == (128 + number, 1, 1)
    assert err.splitlines()[-1].startswith("interrupted: seeds 0 to 0 were run")


def test_a_second_signal_ends_it_in_the_middle_of_a_seed(monkeypatch):
    def signalled_twice(seeds, *_):
        yield campaigns.simulate(next(iter(seeds)))
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    monkeypatch.setattr("simulator.drills.management.commands.simulate.campaign", signalled_twice)
    code, out, err = simulate("--seeds", "3", "--json")
    assert (code, json.loads(out)["next_seed"]) == (128 + signal.SIGINT, 1)
    assert err.splitlines()[-1].startswith("interrupted: seeds 0 to 0 were run")


def test_progress_is_told_now_and_then(monkeypatch):
    monkeypatch.setattr("simulator.drills.management.commands.simulate.PROGRESS_S", 0.0)
    _, _, err = simulate("--seeds", "3")
    assert [line.partition(", ")[0] for line in err.splitlines()[1:]] == ["1 of 3 seeds", "2 of 3 seeds"]
    assert err.splitlines()[1].endswith(" min left")


def test_budgets_that_a_process_without_a_lease_cannot_ask_are_no_line_of_the_log(caplog):
    world = World(draw(0))
    world.start_process()
    [process] = world.processes
    desk = VirtualDesk(process, world)
    world.store.retire(process.name)
    desk.ask(GrantRequest("fabric:f", 1, 1, {}, needed=True), lambda ask, found: None)
    desk.turn()
    assert world.sometimes["budgets_not_asked"] == 1
    assert caplog.records == []


def test_the_stores_on_a_file_are_held_against_those_in_memory():
    code, out, err = simulate("--seeds", "2", "--store", "sqlite", "--json")
    assert (code, json.loads(out)["violations"]) == (0, 0)
    assert err.splitlines()[0].endswith("store sqlite")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seeds", "0"), "--seeds is 0: give 1 or more"),
        (("--seeds", "1", "--start", "-1"), "--start is -1: give 0 or more"),
        (("--seeds", "1", "--jobs", "0"), "--jobs is 0: give 1 or more"),
        (
            ("--seeds", "1", "--plant", "no_fence", "--store", "sqlite"),
            "--plant no_fence is a bug of the stores in memory: leave out --store sqlite",
        ),
        (("--seeds", "1", "--plant", "gremlin"), "no bug is named 'gremlin'; there are: no_fence, "),
    ],
)
def test_bad_arguments_get_one_sentence(arguments, sentence):
    code, out, err = simulate(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
