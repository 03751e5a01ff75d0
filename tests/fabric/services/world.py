"""The tests of services, selectors and commands share a small fabric, an actor, and runs that really ran."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.management.run_follower import Following
from fabric.models import ChangeRequest, Fabric, Workspace
from fabric.runtime.ports.journal import Document, JournalStore
from fabric.selectors.runs.lookup import RunView
from fabric.services.actors import OWNER_ROLES, owner_actor
from fabric.services.drafts.change_requests import change_approve, change_request_open
from fabric.services.fabrics.revisions import PublishedFabric, fabric_publish
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from fabric.services.runs.start import run_start

SMALL = """\
name: small
title: A small fabric
example: What do the notes say?
models:
  - name: script
    provider: scripted
    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}
tools:
  - name: read_document
agents:
  - name: planner
    model: script
    instructions: Plan.
  - name: reader
    model: script
    instructions: Read.
    tools: [read_document]
topology:
  planner: planner
  workers: [reader]
policy:
  budget: {run_usd_micros: 1000000}
reviewers: [owner]
safe_fallback: This cannot be answered here.
"""
EYES = (
    SMALL.replace("run_usd_micros: 1000000}", "run_usd_micros: 1000000}\n  humans: {four_eyes: [interactive]}")
    + "decision_table:\n  infinite_tool_loop:\n    interactive: {rungs: [{reaction: terminate}]}\n"
)
"""The same where two people agree to each change. Its loops end without a person, so that the owner alone may ask for it."""

DOUBTFUL = (
    SMALL.replace("name: small", "name: doubtful")
    .replace("    provider: scripted\n", "    provider: scripted\n    options: {score: 0.55}\n")
    .replace(
        "topology:\n", "  - name: critic\n    model: script\n    instructions: Judge.\ntopology:\n  critic: critic\n"
    )
)
"""Its critic is never content, so each run waits for a person."""

TYPED = SMALL.replace("name: small", "name: typed").replace(
    "topology:\n",
    """\
  - name: writer
    model: script
    instructions: Write.
    output_schema:
      type: object
      properties:
        total: {type: integer, minimum: 3}
        kind: {enum: [rise, fall]}
        lines: {type: array, minItems: 2, items: {type: string}}
      required: [total, kind, lines]
      additionalProperties: false
topology:
  finalizer: writer
""",
)
"""Its outcomes have data."""


WATCHED = (
    DOUBTFUL.replace("name: doubtful", "name: watched").replace(
        "run_usd_micros: 1000000}", "run_usd_micros: 1000000}\n  humans: {four_eyes: [interactive]}"
    )
    + EYES[EYES.index("decision_table:") :]
)
"""The same where two people have to agree: ``published_by_two`` publishes it."""

PAYING = (
    SMALL.replace("name: small", "name: paying")
    .replace("title: A small fabric", "title: A fabric that pays")
    .replace(
        "  - name: read_document\n",
        """\
  - name: pay
    kind: http
    effect: irreversible
    description: Pays somebody.
    target: https://pay.invalid/payments
    timeout_s: 5
    parameters:
      type: object
      properties: {to: {type: string}, usd: {type: integer, maximum: 100}}
      required: [to, usd]
      additionalProperties: false
""",
    )
    .replace("[read_document]", "[pay]")
    .replace(
        "    provider: scripted\n",
        """\
    provider: scripted
    options: {agents: {reader: {calls: [[{tool: pay, args: {to: Ana, usd: 90}}]]}}}
""",
    )
)
"""Its reader wants to pay a supplier, which cannot be undone: each run waits for a person. Nothing answers at the tool's address."""
REPLACEABLE = PAYING.replace("  - name: pay\n", "  - name: calculator\n  - name: pay\n").replace(
    "[pay]", "[pay, calculator]"
)
"""The same, of which a reviewer may let it count in place of paying."""

TALKING = (
    SMALL.replace("name: small", "name: talking")
    .replace("title: A small fabric", "title: A fabric whose workers take turns")
    .replace(
        "topology:\n  planner: planner\n  workers: [reader]\n",
        "topology:\n  kind: graph\n  initial_speaker: planner\n  workers: [planner, reader]\n  default_target: {kind: round_robin}\n  max_turns: 2\n",
    )
)
"""The planner speaks, then the reader; after that the conversation is closed."""

COSTLY = (
    SMALL.replace("name: small", "name: costly")
    .replace("title: A small fabric", "title: A fabric with hardly any money")
    .replace("run_usd_micros: 1000000", "run_usd_micros: 100, session_usd_micros: 5000000")
    .replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n")
)
"""Its first call is too dear, so each run waits for finance."""
CROWDED = (
    SMALL.replace("name: small", "name: crowded")
    .replace("title: A small fabric", "title: A fabric with hardly any tokens")
    .replace("run_usd_micros: 1000000", "run_usd_micros: 1000000, stage_tokens: 1100, agent_tokens: 1090")
    .replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n")
)
"""Its first call may need more tokens than its stage and its agent may have: each run waits for finance."""

SPARED = (
    SMALL.replace("name: small", "name: spared")
    .replace("title: A small fabric", "title: A fabric whose model is down, with another behind it")
    .replace(
        "    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n",
        """\
    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}
    options: {fail: {cause: server_error}}
    fallbacks: [spare]
  - name: spare
    provider: scripted
    base_url: https://spare.example.org/v1
    price: {input_usd_per_mtok: 2, output_usd_per_mtok: 4}
""",
    )
    .replace("run_usd_micros: 1000000}", "run_usd_micros: 1000000}\n  retry: {base_s: 0.01}")
)
"""Each of its calls fails, and goes to the other model where the tier lets it."""
SPARED_ONLY = (
    SPARED
    + "decision_table:\n  provider_failure:\n    interactive: {rungs: [{reaction: fallback_model, times: 9}, {reaction: abort}]}\n"
)
"""The same; a run whose other model is refused ends at once, in place of waiting for a breaker."""
SPARED_STRICT = SPARED.replace("name: spared", "name: strict").replace(
    "topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n"
)
"""The same in high-stakes: each run waits for a person."""

GIVEN_UP = (
    SMALL.replace("name: small", "name: given-up")
    .replace("title: A small fabric", "title: A fabric whose model is down, which leaves a follow-up")
    .replace("    provider: scripted\n", "    provider: scripted\n    options: {fail: {cause: server_error}}\n")
    + "decision_table:\n  provider_failure:\n    interactive: {rungs: [{reaction: abort, with: [follow_up]}]}\n"
)
"""Each of its runs ends with its first call, and leaves a follow-up."""

NOTES = Document("notes.md", "The budget of the project is 40 dollars. The deadline is Friday, and it will not move.")


class HeardNudge:
    """A nudge that keeps what it is told: there is no worker to wake."""

    def __init__(self) -> None:
        self.woken: list[str] = []

    def wake(self, run_id: str) -> None:
        self.woken.append(run_id)

    def announce(self, run_seqs: object) -> None:
        raise AssertionError("services do not say how far journals reach")


def published_by_two(actor: Actor, source: str) -> PublishedFabric:
    """A fabric to whose changes two people agree: asked for by the actor, agreed to by a colleague."""
    asked = change_request_open(actor=actor, source=source)
    other = Actor(name="who-agrees", workspace_id=actor.workspace_id, roles=frozenset({"editor"}))
    return change_approve(actor=other, request_id=asked.id, digest=asked.digest)


def change_waits(actor: Actor, name: str, author: str = "ana") -> str:
    """The id of a member's change request for a published fabric, whatever that one asks for."""
    fabric = Fabric.objects.select_related("published").get(workspace_id=actor.workspace_id, name=name)
    base = fabric.published
    assert base is not None
    spec = FabricSpec.model_validate_json(base.spec)
    text = fabric_dump(spec.model_copy(update={"title": "Asked for"}))
    more = {"base": base, "text": text, "digest": fabric_read(text).spec.digest(), "opened_at": datetime.now(UTC)}
    made = ChangeRequest.objects.create(workspace_id=actor.workspace_id, name=name, author=author, **more)
    return made.id


@pytest.fixture
def actor(transactional_db: None) -> Actor:
    """The local owner. The stores have connections of their own, so nothing is held back in a transaction."""
    return owner_actor()


@pytest.fixture
def stranger(transactional_db: None) -> Actor:
    """A member of another workspace."""
    workspace = Workspace.objects.create(name="elsewhere")
    return Actor(name="mallory", workspace_id=workspace.id, roles=OWNER_ROLES)


@pytest.fixture
def store(transactional_db: None) -> JournalStore:
    """The journal store on the test's database."""
    return wiring.store()


@pytest.fixture
def nudge() -> HeardNudge:
    return HeardNudge()


@pytest.fixture
def small(actor: Actor) -> str:
    """A published fabric."""
    return fabric_publish(actor=actor, source=SMALL).name


@pytest.fixture
def doubtful(actor: Actor) -> str:
    """A published fabric whose runs wait for a person."""
    return fabric_publish(actor=actor, source=DOUBTFUL).name


@pytest.fixture
def paying(actor: Actor) -> str:
    """A published fabric whose runs wait for a person's word before a call."""
    return fabric_publish(actor=actor, source=PAYING).name


def ran(
    actor: Actor, fabric: str, text: str = "What do the notes say?", documents: tuple[Document, ...] = (NOTES,)
) -> RunView:
    """A run that was hosted here until it came to rest."""
    started = run_start(
        store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=fabric, text=text, documents=documents
    )
    return Following(actor, started.run_id).to_rest()


SAMPLES = Path(__file__).resolve().parents[3] / "fabric" / "samples"
SAMPLE_NAMES = sorted(path.stem for path in SAMPLES.glob("*.yaml"))


def sample(name: str) -> str:
    """The YAML of a sample."""
    return (SAMPLES / f"{name}.yaml").read_text()
