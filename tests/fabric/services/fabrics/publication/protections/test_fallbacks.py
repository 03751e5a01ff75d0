"""Publication: fallbacks that could not stand in, and circuit breakers whose fallback does not exist, each named with its path."""

import pytest

from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.fabrics.publication.test_rules import model, policy, small, told
from tests.fabric.services.world import SMALL


def test_a_fallback_further_down_the_chain_is_held_to_what_the_agent_needs_too():
    models = [model(fallbacks=["spare"]), model(name="spare", fallbacks=["last"]), model(name="last", tool_calls=False)]
    ((path, sentence),) = told(small(models=models))
    assert (path, "'last'" in sentence) == ("models.1.fallbacks.0", True)
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    agents = [agent | {"needs": ["vision"]} if agent["name"] == "reader" else agent for agent in tree["agents"]]
    seeing = model(name="spare", capabilities=["vision"])
    assert told(small(models=[model(fallbacks=["spare"]), seeing], agents=agents)) == []
    ((path, sentence),) = told(small(models=[model(fallbacks=["spare"]), model(name="spare")], agents=agents))
    assert (path, "lacks vision" in sentence) == ("models.0.fallbacks.0", True)


def test_a_fallback_without_a_price_is_refused_at_its_price():
    ((path, sentence),) = told(small(models=[model(fallbacks=["spare"]), model(name="spare", price=None)]))
    assert (path, "'spare'" in sentence) == ("models.1.price", True)


FORM = {"names": ["schema_invalid"], "mode": "consecutive", "threshold": 2}


@pytest.mark.parametrize(
    ("breaker", "sentence"),
    [
        ({"preset": "endpoint", "scope": "tool", "on_open": "model"}, "stands behind this breaker is a tool"),
        ({"preset": "endpoint", "on_open": "static_answer"}, "give safe_fallback a text"),
        (
            {"scope": "agent", "signals": [FORM], "on_open": "model"},
            "no cell that schema invalid leads to has the rung fallback_model",
        ),
    ],
)
def test_a_breaker_s_fallback_has_to_exist(breaker, sentence):
    pair = [model(fallbacks=["spare"]), model(name="spare")]
    ((path, said),) = told(small(models=pair, policy=policy(breakers=[breaker]), safe_fallback=None))
    assert (path, sentence in said) == ("policy.breakers.0.on_open", True)
    named = policy(breakers=[{"preset": "endpoint", "on_open": "static_answer"}])
    ((path, said),) = told(small(models=pair, policy=named, safe_fallback="Later."))
    assert (path, "has the rung safe_fallback" in said) == ("policy.breakers.0.on_open", True)
    fine = policy(
        breakers=[{"preset": "endpoint", "on_open": "model"}, {"preset": "semantic", "on_open": "static_answer"}]
    )
    cell = {"provider_failure": {"interactive": {"rungs": [{"reaction": "safe_fallback"}]}}}
    assert told(small(models=pair, policy=named, safe_fallback="Later.", decision_table=cell)) == []
    cell["provider_failure"]["batch"] = {"rungs": [{"reaction": "fallback_model", "times": 1}, {"reaction": "abort"}]}
    assert told(small(models=pair, policy=fine, safe_fallback="Later.", decision_table=cell)) == []
