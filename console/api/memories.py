"""What fabrics remember: by memory its keys, and deleting one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Path, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.spec_memories import KEY_CHARS
from fabric.selectors.memories import KEYS_SHOWN, MemoryView, Remembered, memories_of
from fabric.services.memories import memory_delete
from fabric.services.runs import REASON_CHARS_MAX

router = Router(tags=["memories"])
VERSION_MAX = 2**63 - 1
MEMORY_CHARS = 40
FABRIC = Path(..., description="The fabric's name.", example="research-desk")


class EntryOut(Told):
    """What stands under a key."""

    key: str = Field(description="Its key.", examples=["supplier/acme"])
    version: int = Field(description="Of this key; never given twice.", examples=[3])
    value: Any = Field(description="Its value, any JSON; null as well where it was erased.")
    erased: bool = Field(description="Whether its value was erased.")
    run_id: str = Field(description="The run that wrote it; empty: a person did.")
    stage: str = Field(description="The stage in which it was written; empty: a person wrote it.", examples=["fan_out"])
    agent: str = Field(description="The agent that wrote it; empty: a person did.", examples=["researcher"])
    actor: str = Field(description="The person who wrote it; empty: an agent did.")
    at: Instant = Field(description="When it was written.")


class MemoryOut(Told):
    """A memory of a fabric."""

    name: str = Field(description="Its name.", examples=["suppliers"])
    scope: Literal["run", "fabric"] = Field(
        description="run: in each run's journal, not here; fabric: of all its runs."
    )
    description: str = Field(description="What it holds, in the author's words; may be empty.")
    keys: int = Field(description="Keys that hold a value; 0 for scope run.", examples=[12])
    keys_max: int = Field(description="So many may.", examples=[100])
    writers: list[str] = Field(description="Agents that may write.")
    readers: list[str] = Field(description="Agents that may read.")
    deleters: list[str] = Field(description="Agents that may delete.")
    entries: list[EntryOut] = Field(description=f"What stands, by key; the first {KEYS_SHOWN}.")


class MemoriesOut(Told):
    """What a fabric remembers."""

    memories: list[MemoryOut] = Field(description="In the order in which the fabric declares them.")


class DeleteIn(Given):
    """Which key, as it was seen, and why."""

    memory: str = Field(min_length=1, max_length=MEMORY_CHARS, description="The memory's name.", examples=["suppliers"])
    key: str = Field(min_length=1, max_length=KEY_CHARS, description="Its key.", examples=["supplier/acme"])
    version: int = Field(
        ge=1, le=VERSION_MAX, description="As it was listed: one that changed meanwhile is left alone.", examples=[3]
    )
    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept in the audit stream.",
        examples=["The supplier asked for it."],
    )


@router.get(
    "/fabrics/{name}/memories", response=MemoriesOut, url_name="api-fabric-memories", operation_id="listMemories"
)
def list_memories(request: HttpRequest, name: str = FABRIC) -> MemoriesOut:
    """List a fabric's memories. With what stands in each, its version and where it comes from."""
    return MemoriesOut(memories=[_told(one) for one in memories_of(actor_of(request), name)])


@router.post(
    "/fabrics/{name}/memories/delete",
    response=MemoriesOut,
    url_name="api-fabric-memory-delete",
    operation_id="deleteMemory",
)
def delete_memory(request: HttpRequest, body: Annotated[DeleteIn, Body()], name: str = FABRIC) -> MemoriesOut:
    """Delete what stands under a key. Its values are erased, and no run reads it any more. For the owner and operators."""
    actor = actor_of(request)
    memory_delete(actor=actor, fabric=name, **body.model_dump())
    return MemoriesOut(memories=[_told(one) for one in memories_of(actor, name)])


def _told(one: MemoryView) -> MemoryOut:
    users = dict(one.users)
    return MemoryOut(
        name=one.memory.name,
        scope=one.memory.scope,
        description=one.memory.description,
        keys=one.count,
        keys_max=one.memory.keys,
        writers=list(users["write"]),
        readers=list(users["read"]),
        deleters=list(users["delete"]),
        entries=[_entry(entry) for entry in one.entries],
    )


def _entry(one: Remembered) -> EntryOut:
    return EntryOut(
        key=one.key,
        version=one.version,
        value=one.value,
        erased=one.erased,
        run_id=one.run_id,
        stage=one.stage,
        agent=one.agent,
        actor=one.actor,
        at=instant(one.at),
    )
