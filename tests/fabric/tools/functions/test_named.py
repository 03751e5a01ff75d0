"""The operator names functions; a fabric uses the names, and can neither name another function nor say less of one than its author."""

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Effect, Outcome
from fabric.core.values.taxonomy import Cause
from fabric.tools.functions.callables import tool
from fabric.tools.functions.named_tools import PRODUCT, ToolsUnusable, build_tools, pairs_problems, problems
from fabric.tools.functions.permits import INHERITED, Permits
from fabric.tools.runner import ToolRunner
from tests.fabric.tools.asking import run, samples
from tests.fabric.tools.functions.marked import HERE, NAMED

EFFECTS = [effect.value for effect in Effect]


def spec(target, **changed):
    return ToolSpec(
        name="mine", kind="callable", description="D", parameters={"type": "object"}, target=target, **changed
    )


def test_without_a_word_of_the_operators_there_are_the_product_s_own_alone():
    found = build_tools({})
    assert {name: one.path for name, one in found.items()} == PRODUCT
    assert {name: one.effect.value for name, one in found.items()} == {
        "paper-reserve": "mutating",
        "paper-release": "idempotent",
        "paper-pay": "irreversible",
        "drill-lookup": "read_only",
    }


def test_what_a_mark_declares_is_told_by_the_operators_names():
    found = build_tools({**NAMED, "also-cancels": f"{HERE}.cancels"})
    assert found["changes"].undone_by == ("also-cancels", "cancels")
    assert found["changes"].reconciled_by == ("looks",)
    assert (found["pays"].effect, found["pays"].variables) == (Effect.IRREVERSIBLE, ("ACME_KEY",))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (
            {"paper-pay": f"{HERE}.pays"},
            "FABRIC_TOOLS names 'paper-pay', which is a tool of the product's own: give it another name",
        ),
        (
            {"x": "no.such.function"},
            "FABRIC_TOOLS has x=no.such.function, which is no tool (no.such does not import: No module named 'no' (ModuleNotFoundError)): correct it",
        ),
        ({"x": "os.system"}, "os.system is not marked as a tool; put @fabric.tools.functions.callables.tool above"),
        (
            {"changes": NAMED["changes"]},
            f"FABRIC_TOOLS has changes={HERE}.changes, which is undone by {HERE}.cancels, which has no name: add NAME={HERE}.cancels",
        ),
        (
            {"changes": NAMED["changes"], "cancels": NAMED["cancels"]},
            f"FABRIC_TOOLS has changes={HERE}.changes, which is reconciled by {HERE}.looks, which has no name: add NAME={HERE}.looks",
        ),
        (
            {**NAMED, "x": f"{HERE}.undone_by_none"},
            f"FABRIC_TOOLS has x={HERE}.undone_by_none, which is undone by {HERE}.looks, which is read_only: it must be idempotent",
        ),
        (
            {**NAMED, "x": f"{HERE}.asked_by_change"},
            f"FABRIC_TOOLS has x={HERE}.asked_by_change, which is reconciled by {HERE}.cancels, which is idempotent: it must be read_only",
        ),
    ],
)
def test_a_name_behind_which_no_tool_is_is_refused_with_a_sentence(named, said):
    with pytest.raises(ToolsUnusable) as refused:
        build_tools(named)
    assert said in str(refused.value)


def test_a_module_that_ends_the_process_while_it_loads_ends_nothing(tmp_path, monkeypatch):
    (tmp_path / "ends_all.py").write_text("raise SystemExit(2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ToolsUnusable, match=r"ends_all does not import: 2 \(SystemExit\)"):
        build_tools({"x": "ends_all.x"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"effect": "mutating"}, "give undone_by, or declare it irreversible"),
        ({"effect": "read_only", "undone_by": tool}, "leave them out of one that is read_only"),
        ({"effect": "irreversible", "reconciled_by": tool}, "leave them out of one that is irreversible"),
        ({"effect": "harmless"}, "'harmless' is not a valid Effect"),
    ],
)
def test_a_mark_that_contradicts_itself_is_refused_where_it_stands(given, said):
    with pytest.raises(ValueError, match=said):
        tool(**given)


@pytest.mark.parametrize(
    ("target", "least"),
    [("looks", "read_only"), ("cancels", "idempotent"), ("changes", "mutating"), ("pays", "irreversible")],
)
@pytest.mark.parametrize("said", EFFECTS)
def test_a_fabric_may_say_more_of_a_function_and_never_less(target, least, said):
    found = list(problems(spec(target, effect=said), build_tools(NAMED)))
    if EFFECTS.index(said) >= EFFECTS.index(least):
        assert found == []
    else:
        assert found == [
            ("effect", f"is declared {said}, but the operator's {target!r} is {least}; declare it {least}")
        ]


OTHERS = {
    "undo": spec("cancels", effect="idempotent").model_copy(update={"name": "undo"}),
    "ask": spec("looks").model_copy(update={"name": "ask"}),
    "other": spec("paper-release", effect="idempotent").model_copy(update={"name": "other"}),
    "web": ToolSpec(name="web", kind="http", target="https://example.org/", effect="idempotent"),
}


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (spec("changes", effect="mutating", compensation="undo"), []),
        (spec("changes", effect="mutating", compensation="undo", reconcile="ask"), []),
        (
            spec("changes", effect="mutating", compensation="other"),
            [
                (
                    "compensation",
                    "the operator's 'changes' is not undone by 'other'; name a callable tool with target 'cancels'",
                )
            ],
        ),
        (
            spec("changes", effect="mutating", compensation="web", reconcile="web"),
            [
                (
                    "compensation",
                    "the operator's 'changes' is not undone by 'web'; name a callable tool with target 'cancels'",
                ),
                (
                    "reconcile",
                    "the operator's 'changes' is not reconciled by 'web'; name a callable tool with target 'looks'",
                ),
            ],
        ),
        (
            spec("unasked", effect="mutating", compensation="undo", reconcile="ask"),
            [("reconcile", "the operator's 'unasked' is not reconciled by 'ask'; leave it out: a person is asked")],
        ),
        (spec("changes", effect="irreversible"), []),
        (spec("looks", effect="mutating", compensation="other"), []),
        (spec("nothing", effect="mutating", compensation="other"), []),
    ],
)
def test_what_undoes_a_function_and_what_asks_after_it_is_its_author_s_to_say(mine, said):
    assert list(pairs_problems(mine, OTHERS, build_tools(NAMED))) == said


# -- at the call -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "permits", "said"),
    [
        (
            spec("tests.fabric.tools.functions.sample_tools.add"),
            samples(),
            "is no tool that the operator names here; there are: add, ",
        ),
        (spec("add"), Permits(), "have the operator add NAME=dotted.path to FABRIC_TOOLS and give NAME"),
        (
            spec("changes"),
            Permits(tools=build_tools(NAMED)),
            "is declared read_only, but the operator's 'changes' is mutating",
        ),
        (spec("seen"), samples(variables=frozenset()), "have the operator add SAMPLE_KEY to FABRIC_TOOL_VARIABLES"),
        (spec("seen"), samples(environment={}), "the variable SAMPLE_KEY is not set in this process's environment"),
    ],
)
def test_the_call_is_held_to_the_same_and_never_begins(asked, permits, said):
    runner = ToolRunner(permits=permits)
    found = run(asked, {}, runner)
    runner.close()
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert said in found.message


SECRETS = {
    "FABRIC_MODEL_KEY": "canary-1",
    "FABRIC_ANTHROPIC_KEY": "canary-2",
    "FABRIC_SMTP_PASSWORD": "canary-3",
    "FABRIC_WEBHOOK_SECRET": "canary-4",
    "OTHER_TOOLS_KEY": "canary-5",
}


def test_a_function_s_process_is_given_a_short_list_and_what_its_mark_asks_for(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SAMPLE_KEY", "mine")
    runner = ToolRunner(permits=samples(variables=frozenset({"SAMPLE_KEY", "OTHER_TOOLS_KEY"})))
    seen = run(spec("seen"), {}, runner).result
    assert seen["SAMPLE_KEY"] == "mine"
    assert set(seen) <= {*INHERITED, "SAMPLE_KEY", "PYTHONPATH"}
    assert "canary" not in str(seen)
    runner.close()


def test_a_process_that_was_given_a_variable_runs_no_function_without_it(monkeypatch):
    monkeypatch.setenv("SAMPLE_KEY", "mine")
    runner = ToolRunner(permits=samples())
    with_key, again = (run(spec("seen"), {}, runner).result["PATH"] for _ in range(2))
    assert with_key == again
    pids = [run(spec("pid"), {}, runner).result for _ in range(2)]
    (child,) = runner._processes._idle
    assert [child.process.pid] * 2 == pids
    assert "SAMPLE_KEY" not in child.environment
    runner.close()
