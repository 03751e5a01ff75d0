import io
import json

import pytest
from django.core.management import call_command


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
    assert list(found) == ["seeds", "violations", "violating_seeds", "seeds_per_s"]
    assert (found["seeds"], found["violations"], found["violating_seeds"]) == (5, 0, [])
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
    assert f"manage.py simulate --seeds 1 --start {seed} --plant retry_moves_deadline" in err
    again, _, told = simulate("--seeds", "1", "--start", str(seed), "--plant", "retry_moves_deadline")
    assert again == 1
    assert told.splitlines()[1] in err.splitlines()


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
