"""Invariants in CEL: what an expression may call and name is what the library can call and the gate hands it."""

from __future__ import annotations

import pytest

from fabric.policies.expressions.invariants import FUNCTIONS, KNOWN, RUN, ExpressionProblem, compile_program

MOMENT = "timestamp('2026-01-02T03:04:05Z')"
EXAMPLES = {
    **{name: f"'ab'.{name}('a')" for name in ("contains", "startsWith", "endsWith", "matches")},
    **{name: f"{name}(1)" for name in ("uint", "double", "string", "type", "dyn")},
    **{name: f"{MOMENT}.{name}()" for name in FUNCTIONS if name.startswith("get")},
    "size": "size('a')",
    "int": "int('1')",
    "bytes": "bytes('a')",
    "duration": "duration('1s')",
    "timestamp": MOMENT,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_that_may_be_called_is_there(name):
    program = compile_program(EXAMPLES[name])
    assert name in program.functions()
    program.execute({})


@pytest.mark.parametrize(
    "expression",
    [
        "payload.items.all(one, one.size() > 0) && payload.items.exists_one(x, x == 1) || has(payload.text)",
        "run.documents.map(name, name + '!').filter(name, name.contains('run.fast')).size() == 0",
        "payload.run.anything == 'x' && 1 - 2 * 3 / 4 % 5 < -6 ? !true : stage in ['plan']",
        'payload.text != "run.away(\\"now\\")"',
        "payload.legs.all(run, run.length > 3)",
    ],
)
def test_operators_macros_texts_and_names_that_are_bound_are_not_taken_for_more(expression):
    assert compile_program(expression) is not None


@pytest.mark.parametrize("name", RUN)
def test_each_fact_of_the_run_may_be_named(name):
    assert compile_program(f"run.{name} == run . {name}").variables() == ["run"]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("unheard_of(payload.text)", "calls 'unheard_of', which there is not"),
        ("payload.text.lowerAscii() == ''", "calls 'lowerAscii', which there is not"),
        ("run.tire == ''", "names run.tire, which there is not; there are: id, "),
        ("other == 1", f"names 'other'; there are: {', '.join(KNOWN)}"),
    ],
)
def test_what_there_is_not_is_refused_before_anything_runs(expression, said):
    with pytest.raises(ExpressionProblem, match="^(calls|names) ") as caught:
        compile_program(expression)
    assert said in str(caught.value)
