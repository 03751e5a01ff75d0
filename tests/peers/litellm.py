"""LiteLLM's proxy between the product's adapters and a scripted endpoint: what it makes of a request and of an answer is not ours."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fabric.providers.exchange.http_model import Endpoint, HttpModel
from fabric.runtime.ports.calls import ModelRequest
from simulator.endpoint import Received, ScriptedEndpoint, Step, answer, refusal
from tests.fabric.providers.wires import ANTHROPIC, AZURE, BEDROCK, GOOGLE, OPENAI, RESPONSES, VENDORS, Spoken
from tests.peers.processes import script, served
from tests.servers.ports import free_port

KEY = "sk-litellm-0123456789abcdef0123456789"
BEHIND: dict[str, tuple[str, str, Spoken]] = {
    "openai": ("openai/scripted", "/v1", OPENAI),
    "azure": ("azure/scripted", "", OPENAI),
    "azure-v1": ("azure/scripted", "/openai/v1", OPENAI),
    "anthropic": ("anthropic/claude-opus-4-8", "", ANTHROPIC),
    "gemini": ("gemini/gemini-2.5-flash", "", GOOGLE),
    "vertex": ("vertex_ai/gemini-2.5-flash", "", GOOGLE),
    "bedrock": ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "", BEDROCK),
}
"""What it asks behind a model's name: its name of it, what the address has behind the host, and the protocol that the endpoint speaks then."""
AZURE_RESPONSES = replace(RESPONSES, name="azure", adapter=AZURE.adapter, base="", options=(("api", "responses"),))
FRONTS: dict[str, Spoken] = {
    **{one.name: one for one in VENDORS},
    "responses": RESPONSES,
    "azure": replace(AZURE, options=(("api_version", "2024-10-21"),)),
    "azure-responses": AZURE_RESPONSES,
}
"""What it can be asked by, whatever is behind. Without a version it passes Azure's chat completions on to OpenAI, whatever its models are."""
BEDROCK_FRONT = replace(BEDROCK, base="/bedrock")
"""It passes these requests on to Bedrock alone."""
TOKEN = "/token"
"""Where it signs in at Vertex AI."""


def spoken_behind(front: Spoken, behind: str) -> Spoken:
    """The protocol that the endpoint is asked by. Before OpenAI's models Responses stay Responses; before Anthropic's, Messages stay Messages."""
    found = BEHIND[behind][2]
    if front is ANTHROPIC and behind == "bedrock":
        return ANTHROPIC  # Bedrock's `invoke` has a model's own form.
    return RESPONSES if found is OPENAI and dict(front.options).get("api") == "responses" else found


FETCHED = (
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS",
    "LITELLM_LOCAL_BLOG_POSTS",
    "LITELLM_LOCAL_MODEL_COST_MAP",
    "LITELLM_LOCAL_POLICY_TEMPLATES",
)
"""Variables for what it would fetch from its makers otherwise."""


@dataclass
class Proxy:
    """A proxy that runs, and the endpoint behind it, which answers by ``script``."""

    where: str
    outside: ScriptedEndpoint
    """Where each connection goes that is not to this machine."""
    script: Any = field(default_factory=lambda: answer("Hello."))
    endpoint: ScriptedEndpoint = field(init=False)

    def __post_init__(self) -> None:
        self.endpoint = ScriptedEndpoint(self.reply)
        # Adapters are made once, on one loop, as a worker has them.
        self._loop, self._ports = asyncio.Runner(), dict[tuple[str, str, str], HttpModel]()

    def reply(self, received: Received) -> Step:
        if received.path == TOKEN:
            return Step(body=b'{"access_token": "sk-behind", "expires_in": 3600, "token_type": "Bearer"}')
        found = self.script(received) if callable(self.script) else self.script
        assert isinstance(found, Step)
        return found

    def ask(self, spoken: Spoken, key: str, request: ModelRequest, within_s: float = 60.0) -> Any:
        """Return what the product's adapter for a protocol says, pointed at the proxy; one that hangs raises instead."""
        port = self._ports.get((spoken.name, spoken.base, key))
        if port is None:
            port = spoken.adapter(Endpoint(f"http://{self.where}{spoken.base}", "", key))
            self._ports[spoken.name, spoken.base, key] = port
        return self._loop.run(asyncio.wait_for(port.ask(request), within_s))

    @property
    def received(self) -> list[Received]:
        """The requests that a model was asked by."""
        return [one for one in self.endpoint.received if one.path != TOKEN]

    def close(self) -> None:
        """Ends the adapters' connections."""
        for port in self._ports.values():
            self._loop.run(port.aclose())
        self._loop.close()


@cache
def private_key() -> str:
    """A key that a service account signs with."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def signing(name: str, endpoint: ScriptedEndpoint) -> dict[str, str]:
    """How the proxy signs in at what is behind."""
    if name == "bedrock":
        return {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": "behind", "aws_region_name": "us-east-1"}
    if name != "vertex":
        return {"api_key": "sk-behind"}
    account = {"type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": private_key()}
    account |= {"client_email": "proxy@p.example", "token_uri": f"http://{endpoint.authority}{TOKEN}"}
    return {"vertex_project": "p", "vertex_location": "us-central1", "vertex_credentials": json.dumps(account)}


def configuration(endpoint: ScriptedEndpoint, more: Mapping[str, Any]) -> dict[str, Any]:
    """The proxy's own configuration: one model for each protocol behind it and ``more``, and no attempt but the one that is asked for."""
    models = []
    for name, (model, base, _) in BEHIND.items():
        given = {"model": model, "api_base": f"http://{endpoint.authority}{base}"}
        given |= {"azure": {"api_version": "2024-10-21"}, "azure-v1": {"api_version": "v1"}}.get(name, {})
        given |= signing(name, endpoint)
        models.append({"model_name": name, "litellm_params": given})
    models += [{"model_name": name, "litellm_params": given} for name, given in more.items()]
    return {
        "model_list": models,
        "litellm_settings": {
            "num_retries": 0,
            "telemetry": False,
            # It asks OpenAI's Responses for what comes in Anthropic's form otherwise.
            "use_chat_completions_url_for_anthropic_messages": True,
        },
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        # The product's own headers go on to the endpoint, whose scripted agents read from them who asks.
        "general_settings": {"master_key": KEY, "forward_client_headers_to_llm_api": True},
    }


@contextmanager
def proxy(folder: Path, more: Mapping[str, Any] | None = None) -> Iterator[Proxy]:
    """A proxy in a process of its own. It takes about ten seconds to start. ``more``: its models beside the usual ones, by name."""
    port = free_port()
    outside = ScriptedEndpoint([refusal(403, "nothing is fetched here")])
    found = Proxy(f"127.0.0.1:{port}", outside)
    with outside, found.endpoint:
        config = folder / "litellm.json"  # Each JSON is YAML.
        config.write_text(json.dumps(configuration(found.endpoint, more or {})))
        command = [script("litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        away = f"http://{outside.authority}"
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LITELLM_MODE": "PRODUCTION",
            **dict.fromkeys(FETCHED, "True"),
            "HTTP_PROXY": away,
            "HTTPS_PROXY": away,
            "NO_PROXY": "127.0.0.1",
        }
        with served(command, f"http://127.0.0.1:{port}/health/liveliness", folder, environ):
            try:
                yield found
            finally:
                found.close()
