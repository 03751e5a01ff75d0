"""An installation whose every text is hostile: what people wrote, what a model answered, what a tool gave back. Run by `manage.py shell` of that installation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from simulator.endpoint import Received, Step, answer, call, refusal

LOOKS, PAYS, ASKS = "hostile-looks", "hostile-pays", "hostile-asks"
"""Fabrics: one whose tool only reads, one whose tool needs a person, one whose critic asks a person."""
NUMBER = "case number "
TOOL_PATH = "/look"


def script(texts: Sequence[str]) -> Any:
    """Return what the endpoint says as a model, and as a tool: the text of the run that asks, in each place where a text can stand."""

    def said(asked: Received) -> Step:
        body = json.dumps(asked.body)
        text = texts[_number(body) % len(texts)]
        if asked.path == TOOL_PATH:
            if _number(body) % 11 == 0:
                return Step(status=400, body=json.dumps({"error": text, text: text}).encode())
            return Step(body=json.dumps({text[:200]: [text, {text[:200]: text}]}).encode())
        messages = asked.body.get("messages", ())
        if _number(body) % 13 == 0:
            return refusal(400, text, code=text[:40])
        if asked.body.get("tools") and not any(one["role"] == "tool" for one in messages):
            return answer(text, [call("look", {"q": text, "n": _number(body)})])
        return answer(text)

    return said


def _number(body: str) -> int:
    for word in (NUMBER, '"n": '):
        _, found, rest = body.partition(word)
        if found:
            return int("".join(_digits(rest)) or "0")
    return 0


def _digits(text: str) -> Iterator[str]:
    for letter in text:
        if not letter.isdigit():
            return
        yield letter


def fabric(name: str, text: str, root: str, **over: Any) -> str:
    """A fabric whose author writes ``text`` wherever authors may write."""
    worker = {"name": "worker", "model": "m", "answers": "text", "instructions": text, "tools": ["look"]}
    spec = {
        "name": name,
        "title": text[:80] or "x",
        "description": text,
        "example": text,
        "models": [{"name": "m", "provider": "openai", "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}}],
        "tools": [
            {
                "name": "look",
                "kind": "http",
                "target": f"{root}{TOOL_PATH}",
                "effect": over.pop("effect", "read_only"),
                "description": text,
                "parameters": {
                    "type": "object",
                    "description": text,
                    "properties": {"q": {"type": "string", "description": text}, "n": {"type": "integer"}},
                },
            }
        ],
        "agents": [worker],
        "topology": {
            "workers": ["worker"],
            "plan": {
                "goal": text,
                "briefs": [{"agent": "worker", "title": text[:80], "instructions": text}],
                "exit_criteria": [text],
            },
        },
        "memories": [{"name": "notes", "scope": "fabric", "description": text}],
        "tiers": {"default": "batch", "allowed": ["batch"]},
        "policy": {"budget": {"run_usd_micros": 1_000_000}},
        "reviewers": ["owner"],
        "safe_fallback": text,
    }
    return json.dumps(spec | over)  # JSON is YAML.


def fill(source: str) -> None:
    """Writes all that ``source``, a JSON file with ``texts`` and ``root``, asks for; prints the ids of its runs as JSON."""
    from fabric.services.actors import owner_actor

    given = json.loads(Path(source).read_text())
    texts, root, actor = given["texts"], given["root"], owner_actor()
    names = _fabrics(actor, texts, root)
    _memories(actor, texts)
    _scenarios(actor, texts)
    runs = _runs(actor, texts)
    print(json.dumps({"runs": runs, "fabrics": names, "drafts": _drafts(actor, texts)}))


def _fabrics(actor: Any, texts: Sequence[str], root: str) -> list[str]:
    made = [
        _published(actor, LOOKS, texts[0], root),
        _published(actor, PAYS, texts[-1], root, effect="irreversible"),
    ]
    return made + [_published(actor, f"hostile-{number}", text, root) for number, text in enumerate(texts)]


def _published(actor: Any, name: str, text: str, root: str, **over: Any) -> str:
    """The fabric's name. A text that no fabric takes is in the runs as it is, and in the fabric without what is refused."""
    from fabric.services.errors import Refused
    from fabric.services.fabrics.revisions import fabric_publish

    try:
        return str(fabric_publish(actor=actor, source=fabric(name, text, root, **over)).name)
    except Refused as refusal:
        kept = "".join(sign for sign in text if not "\ud800" <= sign <= "\udfff" and sign != "\0")
        if kept == text or "NUL characters and lone surrogates are not read" not in refusal.message:
            raise
    return str(fabric_publish(actor=actor, source=fabric(name, kept, root, **over)).name)


def _memories(actor: Any, texts: Sequence[str]) -> None:
    from fabric.services.memories.changes import memory_write

    for number, text in enumerate(texts):
        kept: dict[str, Any] = {"value": {text[:100]: [text]}, "version": 0, "reason": text}
        memory_write(actor=actor, fabric=LOOKS, memory="notes", key=f"key-{number}", **kept)


def _scenarios(actor: Any, texts: Sequence[str]) -> None:
    from fabric.services.errors import Refused
    from simulator.drills.library.services import scenario_save
    from tests.simulator.drills.management.sources import plain

    for number, text in enumerate(texts):
        named = plain(f"hostile-{number}").replace('"The endpoint is down"', json.dumps(text[:80]))
        with suppress(Refused):  # TOML takes no NUL, and a title is not blank.
            scenario_save(actor=actor, source=named.replace('"For a test."', json.dumps(text)))


def _drafts(actor: Any, texts: Sequence[str]) -> list[str]:
    """A draft that is none, and of all fabrics the first three changed."""
    from fabric.services.drafts.changes import draft_begin

    made = []
    for number, text in enumerate(texts[:3]):
        made.append(draft_begin(actor=actor, name=f"draft-{number}", text=text).name)
    return made


def _runs(actor: Any, texts: Sequence[str]) -> list[str]:
    """One run a text, each at rest: completed, failed, or with a review; a few cancelled with a text for a reason."""
    from fabric.composition import engine as wiring
    from fabric.management.run_follower import Following
    from fabric.runtime.ports.journal import Document
    from fabric.services.runs.control import run_cancel
    from fabric.services.runs.start import run_start
    from tests.fabric.services.world import HeardNudge

    store, ids = wiring.store(), []
    for number, text in enumerate(texts):
        document = Document(name=f"{text[:60]}.md".replace("/", "_"), text=text or "x")
        asked: dict[str, Any] = {"text": f"{text}\n{NUMBER}{number}", "documents": (document,)}
        name = PAYS if number % 5 == 0 else LOOKS
        ids.append(run_start(store=store, nudge=wiring.nudge(), actor=actor, fabric=name, **asked).run_id)
    for number, run_id in enumerate(ids):
        Following(actor, run_id).to_rest()
        if number % 15 == 0:
            run_cancel(store=store, nudge=HeardNudge(), actor=actor, run_id=run_id, reason=texts[number])
    return ids
