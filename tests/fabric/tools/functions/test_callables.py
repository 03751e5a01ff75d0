import pytest

from fabric.core.events.inputs import ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.tools.functions.callables import NotATool, load
from tests.fabric.tools.asking import run
from tests.fabric.tools.functions.sample_tools import HERE

ANY = {"type": "object"}


def spec(function, **changed):
    return ToolSpec(name="mine", kind="callable", description="D", parameters=ANY, target=function, **changed)


def test_a_marked_function_is_called_with_the_arguments():
    assert run(spec("add"), {"a": 2}).result == {"sum": 3}
    assert run(spec("add"), {"a": 2, "b": 5}).result == {"sum": 7}


@pytest.mark.parametrize(
    ("given", "gets"),
    [(3.0, "int"), ([-3.0], "list[int]"), ({"n": 3.0}, "dict[int]"), (3.5, "float"), (1e300, "float")],
)
def test_a_whole_number_is_an_integer_however_it_is_written(given, gets):
    assert run(spec("typed"), {"a": given}).result == gets


def test_a_function_that_asks_for_the_idempotency_key_gets_it():
    assert run(spec("keyed"), {"a": 1}).result == [1, "key-1"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("os.system", "is not marked as a tool"),
        (f"{HERE}.unmarked", "is not marked as a tool"),
        (f"{HERE}.nothing", "has no function 'nothing'"),
        ("no_such_package.x", "does not import"),
        ("plain", "is no dotted path"),
        ("a b.c", "is no dotted path"),
        (f"{HERE}:add", "is no dotted path"),
        (f"{HERE}.later", "coroutine function"),
        (f"{HERE}.RELEASE", "is not marked as a tool"),
    ],
)
def test_what_is_no_tool_is_refused_with_a_sentence(path, said):
    with pytest.raises(NotATool, match=said):
        load(path)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "no such\ufffd thing (ValueError)"),
        ({"how": "exit"}, "it raised SystemExit: 3"),
        ({"how": "stop"}, "it raised StopIteration"),
        ({"how": "timeout"}, "the printer is slow (TimeoutError)"),
        ({"nothing": 1}, "unexpected keyword argument"),
    ],
)
def test_a_function_s_error_is_data_for_the_model(args, said):
    result = run(spec("fail"), args)
    assert isinstance(result, ToolFinished)
    assert result.result is None
    assert said in result.error


@pytest.mark.parametrize(
    ("what", "said"), [("object", "is no JSON"), ("deep", "deeper than 64"), ("large", "at most 1,000,000 are kept")]
)
def test_a_result_that_cannot_be_kept_is_an_error(what, said):
    assert said in run(spec("give"), {"what": what}).error


def test_a_result_is_cleaned_and_told():
    nan, text = run(spec("give"), {"what": "nan"}), run(spec("give"), {"what": "text"})
    assert (nan.result, nan.sanitized, nan.error) == (None, True, "")
    assert (text.result, text.sanitized) == ("a\ufffdb", True)
