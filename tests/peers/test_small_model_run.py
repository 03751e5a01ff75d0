"""A run from end to end on a small real model behind LiteLLM's proxy: the product asks the proxy, and the proxy asks llama.cpp's server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.composition.installation import installation
from tests.peers.litellm import KEY, proxy
from tests.peers.llama import small_model

pytestmark = [pytest.mark.peers, pytest.mark.slow]


@pytest.fixture(scope="module")
def model(tmp_path_factory: Any) -> Iterator[str]:
    """The base URL of the proxy, whose model ``small`` is the real one."""
    with small_model(tmp_path_factory.mktemp("llama")) as url:
        given = {"small": {"model": "openai/smollm2", "api_base": url, "api_key": "none"}}
        with proxy(tmp_path_factory.mktemp("litellm"), given) as found:
            yield f"http://{found.where}/v1"


SEEN = (
    ("How much is 2 + 3, and 4 * 6?", {"2 + 3": "5", "4 * 6": "24"}, "It is 5, and 24."),
    ("How much is 9 - 1, and 5 * 5?", {"9 - 1": "8", "5 * 5": "25"}, "It is 8, and 25."),
)
"""Questions, the calls that each takes, with their results, and its answer. So small a model calls tools when it has seen how."""
ASKED = "How much is 7 + 8, and 3 * 6?"


def shown() -> str:
    """Those as the model's template has them, and the question that is asked."""
    turns = []
    for question, results, answer in SEEN:
        calls = (json.dumps({"name": "calculator", "arguments": {"expression": one}}) for one in results)
        said = "\n".join(f"<tool_call>\n{one}\n</tool_call>" for one in calls)
        turns += [
            ("user", question),
            ("assistant", said),
            *(("tool", one) for one in results.values()),
            ("assistant", answer),
        ]
    told = "".join(f"<|im_start|>{who}\n{text}<|im_end|>\n" for who, text in turns)
    return f"Use the function.<|im_end|>\n{told}<|im_start|>user\n{ASKED}"


def fabric(stream: bool) -> str:
    """A worker with a tool, and a critic whose answer is checked by a schema by the server's grammar."""
    model: dict[str, Any] = {"name": "small", "provider": "openai", "model": "small"}
    model |= {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}}
    model |= {"options": {"temperature": 0, "seed": 1, "parallel_tool_calls": True, "stream": stream}}
    worker = {"name": "worker", "model": "small", "answers": "text", "tools": ["calculator"], "max_output_tokens": 120}
    brief = {"agent": "worker", "title": "Sums", "instructions": shown()}
    plan = {"goal": "The sums.", "briefs": [brief], "exit_criteria": ["They are right."]}
    deadlines = {"batch": {"call_s": 120, "stage_s": 300, "run_s": 600}}
    return json.dumps(
        {
            "name": "sums",
            "title": "Sums",
            "tiers": {"default": "batch", "allowed": ["batch"]},
            "models": [model],
            "tools": [{"name": "calculator"}],
            "agents": [
                worker | {"instructions": "Call the function."},
                {"name": "critic", "model": "small", "max_output_tokens": 300, "instructions": "Judge the answer."},
            ],
            "topology": {"workers": ["worker"], "critic": "critic", "plan": plan},
            "gates": {"citations": "exist"},
            "policy": {"budget": {"run_usd_micros": 10_000}, "deadlines": deadlines, "tau": 0},
            "reviewers": ["owner"],
        }
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_with_calls_and_a_schema_goes_end_to_end(model: str, stream: bool, settings: Any) -> None:
    """Streamed, the first call begins while the model still writes the second."""
    settings.FABRIC_MODEL_URL, settings.FABRIC_MODEL, settings.FABRIC_MODEL_KEY = model, "", KEY
    with installation() as site:
        run_id = site.start(fabric_publish(actor=site.actor, source=fabric(stream), origin="sums").name, ASKED)
        row, events = site.rest(run_id, 240.0), site.events(run_id)
        text, faults = site.outcome(run_id)["text"] if row.state == "completed" else "", site.host.counters.faults
    said = [event for event in events if event.kind == "model_answered"]
    assert (row.state, faults) == ("completed", 0), row.reason
    results = [event.content["result"]["value"] for event in events if event.kind == "tool_answered"]
    assert sorted(results) == ["15", "18"]
    assert text.strip()
    assert ("call_streamed" in [event.kind for event in events]) is stream
    assert [event.fact["verdict"] for event in said[:2]] == ["calls", "output"]
    judged = said[-1]
    assert (judged.fact["step_id"].partition(".")[0], judged.fact["verdict"]) == ("validate", "output")
    assert all(event.fact["input_tokens"] > 50 and not event.fact["usage_problem"] for event in said)
    assert 0 <= judged.content["output"]["score"] <= 1
