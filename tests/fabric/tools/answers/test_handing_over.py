"""A tool's result may hand over the conversation: of a function what it returns, of another tool what its declaration lets its JSON say."""

import pytest

from fabric.core.graph.state import Finish, Handoff, Writes
from fabric.core.spec.tools import ToolSpec
from fabric.tools.answers.handovers import take_result
from fabric.tools.answers.outcome import ToolError
from tests.fabric.tools.asking import run
from tests.fabric.tools.functions.test_callables import spec

SAYS_SO = {"handoff": {"target": "billing", "reason": "It is a bill."}}


def http(**fields):
    return ToolSpec(name="mine", kind="http", target="https://example.org/", **fields)


def test_a_function_hands_over_and_ends_by_what_it_returns():
    handed = run(spec("routes"), {"to": "billing", "why": "It is a bill."})
    assert handed.returned == Handoff("billing", "It is a bill.")
    assert handed.result == {"handed_to": "billing", "reason": "It is a bill."}
    assert run(spec("routes"), {"why": "known"}).returned == Finish("known")


def test_json_that_looks_like_it_means_nothing_unless_its_tool_is_declared_so():
    assert take_result(http(), SAYS_SO) == (SAYS_SO, None, None)
    assert take_result(http(hands_over=True), SAYS_SO)[1] == Handoff("billing", "It is a bill.")
    assert take_result(http(hands_over=True), {"finish": {}})[1] == Finish()
    assert take_result(http(hands_over=True), {"price": 3}) == ({"price": 3}, None, None)


@pytest.mark.parametrize("result", [{"handoff": {}}, {"handoff": "billing"}, {"handoff": {"target": 3}}])
def test_a_handoff_that_does_not_say_to_whom_is_an_error_for_the_model(result):
    with pytest.raises(ToolError, match="its result is no handoff; give"):
        take_result(http(hands_over=True), result)


def test_a_function_writes_context_variables_by_what_it_returns():
    wrote = run(spec("resolves"), {"solution": "Restart it.", "to": "billing"})
    assert wrote.writes == Writes(set={"solution": "Restart it."}, delete=("open",))
    assert (wrote.result, wrote.returned) == ({"resolved": True}, Handoff("billing"))
    assert run(spec("resolves"), {"solution": "x"}).returned is None


def test_json_of_a_declared_tool_writes_them_too():
    says = {"set_context": {"k": 1}, "result": {"ok": True}, "finish": {"reason": "known"}}
    assert take_result(http(), says) == (says, None, None)
    assert take_result(http(hands_over=True), says) == ({"ok": True}, Finish("known"), Writes(set={"k": 1}))
    assert take_result(http(hands_over=True), {"delete_context": ["k"]}) == (None, None, Writes(delete=("k",)))
    assert take_result(http(hands_over=True), {**says, "price": 3})[1:] == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"set_context": [1]},
        {"set_context": {"": 1}},
        {"delete_context": "k"},
        {"set_context": {f"k{n}": n for n in range(101)}},
    ],
)
def test_a_change_of_variables_that_is_none_is_an_error_for_the_model(changes):
    with pytest.raises(ToolError, match="its result changes no variables; give"):
        take_result(http(hands_over=True), changes)


def test_more_than_a_conversation_keeps_is_an_error_for_the_model():
    with pytest.raises(ToolError, match="it writes more than 100,000 bytes of variables"):
        take_result(http(hands_over=True), {"set_context": {"k": "x" * 100_001}})
