"""The fabric of flow5, compiled as the composition root compiles any. It needs no Django."""

from __future__ import annotations

from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric, compile_spec
from fabric.runtime.prompts import overhead_bytes

SPEC = FabricSpec.model_validate(
    {
        "name": "flow5",
        "title": "Benchmark",
        "tiers": {"default": "batch", "allowed": ["batch"]},
        "models": [
            {"name": "instant", "provider": "instant", "price": {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}}
        ],
        "agents": [
            {"name": name, "instructions": f"You are the {name}.", "model": "instant"}
            for name in ("planner", "worker", "lead", "critic", "writer")
        ],
        "topology": {
            "planner": "planner",
            "workers": ["worker"],
            "aggregator": "lead",
            "critic": "critic",
            "finalizer": "writer",
        },
        "policy": {"budget": {"run_usd_micros": 10_000_000}},
        "reviewers": ["reviewer"],
    }
)


def compile_flow5(spec: FabricSpec = SPEC) -> CompiledFabric:
    """The benchmark's fabric, compiled as the composition root compiles any."""
    prices = {model.name: model.price.price() for model in spec.models if model.price}
    overhead = {agent.name: overhead_bytes(spec, agent, {}) for agent in spec.agents}
    return compile_spec(spec, prices=prices, prompt_overhead=overhead)
