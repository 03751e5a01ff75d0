"""Expressions that may take long are evaluated in a process of their own, with a deadline, and are refused at publication where their text says that they do."""

from __future__ import annotations

import threading

import pytest

from fabric.core.spec.policies.gates import Invariant
from fabric.policies.expressions import evaluation as expressions
from fabric.policies.expressions.evaluation import Evaluated, evaluate, evaluated_here, loops, may_take_long, too_costly
from fabric.policies.expressions.invariants import build_asks, compile_program, holds

FORTY = f"[{','.join(['1'] * 40)}]"


def nested(levels: int, over: str = FORTY) -> str:
    """Loops within each other, of which the innermost says yes."""
    return f"{over}.all(a{levels}, {nested(levels - 1, over)})" if levels else "true"


ENDLESS = nested(6)
DOUBLED = "['x']" + ".map(a, a + a)" * 60 + "[0] == ''"


def gave(expression: str, about=None, **given) -> Evaluated:
    """Return what an expression over a payload gives."""
    return evaluate(compile_program(expression), expression, about or {"payload": {}}, **given)


@pytest.mark.parametrize(
    ("expression", "about"),
    [
        ("payload.names.all(n, n.size() > 1)", {"payload": {"names": ["ab", "cd"]}}),
        ("payload.names.all(n, n.size() > 2)", {"payload": {"names": ["ab", "cd"]}}),
        ("payload.none.all(n, true)", {"payload": {}}),
        ("payload.names.map(n, n)", {"payload": {"names": ["é", "\ud800"]}}),
        ("payload.n.all(x, x == 4.0)", {"payload": {"n": (4, 4.0)}}),
        ("payload.n.exists(x, x == null)", {"payload": {"n": [None, True, 2**40]}}),
    ],
)
def test_the_process_says_what_would_be_said_here(expression, about):
    assert may_take_long(expression)
    program = compile_program(expression)
    assert evaluate(program, expression, about, within_s=30) == evaluated_here(program, expression, about)


def test_loops_within_loops_end_at_their_deadline_and_let_others_go_on():
    turns = threading.Event()
    other = threading.Thread(target=turns.set)
    asked = threading.Thread(target=gave, args=(ENDLESS,))
    asked.start()
    other.start()
    assert turns.wait(30)
    asked.join()
    assert gave(ENDLESS, within_s=0.5) == Evaluated(
        failed="it took longer than 0.5 seconds and was stopped: make what it asks simpler"
    )


def test_a_text_that_doubles_ends_for_want_of_memory():
    assert gave(DOUBLED, within_s=60).failed.startswith("it needed more memory than it may have and was stopped")


def test_a_failed_evaluation_is_a_failed_condition():
    one = Invariant(stage="finalize", name="own", expression=ENDLESS, message="No.")
    answered = build_asks(one)({"payload": {}})
    assert not answered.evaluated
    assert answered.said.startswith("invariant own could not be evaluated: it took longer than ")


def test_who_finds_no_process_free_gets_no_answer():
    room = expressions.CHILDREN._room
    assert room.acquire()
    assert room.acquire()
    try:
        said = gave("[1].all(x, true)", within_s=0.1)
    finally:
        room.release()
        room.release()
    assert said == Evaluated(failed="it found no process free within 0.1 seconds")


def test_what_may_take_long_is_never_evaluated_here():
    class Here:
        def execute(self, about):
            raise AssertionError("it was evaluated here")

    for expression in ("[1].all(x, true)", "[1].all // a\n(x, true)", "[1].existsOne(x, true)", "'+'" + "+ 'a'" * 9):
        assert evaluate(Here(), expression, {}, within_s=30).error == ""
    assert evaluate(Here(), "true", {}).error == "AssertionError"


@pytest.mark.parametrize("macro", ["all", "exists", "exists_one", "existsOne", "map", "filter"])
@pytest.mark.parametrize(
    "form", ["[1].{m}(x, true)", "[1] . {m} (x, true)", "[1].{m} // why\n(x, true)", "[1]. // (\n{m}(x, true)"]
)
def test_a_loop_is_seen_however_it_is_written(macro, form):
    condition = form.format(m=macro)
    assert loops(condition)
    assert holds(condition, {}) == (False, "it goes through a list, which a condition may not")
    assert compile_program(condition)


@pytest.mark.parametrize("text", ["'.all(x, y)'", '".map(x"', "'''a'.all('''", r"r'\'", '"""\n".all("\n"""'])
def test_a_loop_in_a_text_is_none(text):
    assert not loops(f"{text} == payload.text")
    assert compile_program(f"{text} == payload.text")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (nested(1), ""),
        (nested(2), ""),
        (nested(3, "payload.names"), "goes through lists within each other 3 deep; at most 2"),
        (ENDLESS, "goes through lists within each other 6 deep; at most 2"),
        (nested(2, f"[{','.join(['1'] * 100)}]"), ""),
        (nested(2, f"[{','.join(['1'] * 101)}]"), "may go through its own lists 10,201 times"),
        (nested(1, f"[{','.join(['1'] * 900)}]"), ""),
        (f"[{','.join(['1'] * 900)}].size() == 3", ""),
        ("payload.a.map(x, x).filter(x, x).all(x, x)", ""),
        ("payload.a.all(x, ['[[[', ']'].exists(y, y == x))", ""),
        ("[1].all(a, [1].all // )))\n(b, [1].all(c, true)))", "3 deep"),
        ("payload.text.size() > 1 && (1 + (2 + 3)) > 2", ""),
        (")]}", ""),
    ],
)
def test_what_an_expression_costs_at_most(expression, said):
    assert said in too_costly(expression)
    assert bool(said) == bool(too_costly(expression))
