"""What fabrics remember: by memory its keys, what was ever written under one, writing and deleting it, and all of it as a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import FileResponse, HttpRequest
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from console.exporting import NDJSON, memories_response
from fabric.core.spec_memories import KEY_CHARS
from fabric.selectors.memories import KEYS_SHOWN, MemoryView, Remembered, memories_of
from fabric.selectors.memory_history import ENTRIES_SHOWN, Became, Written, memory_history
from fabric.services.memories import memory_delete, memory_write
from fabric.services.reveals import memory_reveal
from fabric.services.runs import REASON_CHARS_MAX

router = Router(tags=["memories"])
VERSION_MAX = 2**63 - 1
MEMORY_CHARS = 40
FABRIC = Path(..., description="The fabric's name.", example="research-desk")


class EntryOut(Told):
    """What stands under a key."""

    key: str = Field(description="Its key.", examples=["supplier/acme"])
    version: int = Field(description="Of this key; never given twice.", examples=[3])
    value: Any = Field(description="Its value, any JSON, with credentials masked; null as well where it was erased.")
    withheld: bool = Field(description="Whether something in it is masked. The role safety may have it revealed.")
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


class WrittenOut(EntryOut):
    """What was written under a key once, or deleted there."""

    became: Became = Field(
        description="What became of it; deletion: it is the newest, and deletes what was before it.",
        examples=["replaced"],
    )
    deleted: bool = Field(description="Whether it is a deletion; then it has no value.")
    reason: str = Field(description="Why a person wrote or deleted it; empty: an agent did.")


class HistoryOut(Told):
    """What was ever written under a key."""

    count: int = Field(description="Entries that the ledger has.", examples=[12])
    entries: list[WrittenOut] = Field(description=f"The newest {ENTRIES_SHOWN}, the newest first.")


class WriteIn(Given):
    """What is to stand under which key, what was seen there, and why."""

    memory: str = Field(min_length=1, max_length=MEMORY_CHARS, description="The memory's name.", examples=["suppliers"])
    key: str = Field(min_length=1, max_length=KEY_CHARS, description="Its key.", examples=["supplier/acme"])
    value: Any = Field(description="Any JSON that fits the memory's schema and its bytes.", examples=[{"days": 30}])
    version: int = Field(
        ge=0,
        le=VERSION_MAX,
        description="As it was listed, 0 where nothing stood: one that changed is left.",
        examples=[0],
    )
    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept in the audit stream.",
        examples=["Told by the office."],
    )


class MemoryRevealIn(Given):
    """Which version under which key."""

    memory: str = Field(min_length=1, max_length=MEMORY_CHARS, description="The memory's name.", examples=["suppliers"])
    key: str = Field(min_length=1, max_length=KEY_CHARS, description="Its key.", examples=["supplier/acme"])
    version: int = Field(ge=1, le=VERSION_MAX, description="As its history lists it.", examples=[3])


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


@router.get(
    "/fabrics/{name}/memories/history",
    response=HistoryOut,
    url_name="api-fabric-memory-history",
    operation_id="getMemoryHistory",
)
def get_history(
    request: HttpRequest,
    memory: Annotated[
        str, Query(min_length=1, max_length=MEMORY_CHARS, description="The memory's name.", example="suppliers")
    ],
    key: Annotated[str, Query(min_length=1, max_length=KEY_CHARS, description="Its key.", example="supplier/acme")],
    name: str = FABRIC,
) -> HistoryOut:
    """Get what was ever written under a key. With what became of each entry, as far as the ledger goes back."""
    found = memory_history(actor_of(request), name, memory, key)
    return HistoryOut(count=found.count, entries=[_written(one) for one in found.entries])


@router.post(
    "/fabrics/{name}/memories/write",
    response=MemoriesOut,
    url_name="api-fabric-memory-write",
    operation_id="writeMemory",
)
def write_memory(request: HttpRequest, body: Annotated[WriteIn, Body()], name: str = FABRIC) -> MemoriesOut:
    """Write a value under a key. The runs from now on read it, as a person's; no run takes it back. For the owner and operators."""
    actor = actor_of(request)
    memory_write(actor=actor, fabric=name, **body.model_dump())
    return MemoriesOut(memories=[_told(one) for one in memories_of(actor, name)])


@router.post(
    "/fabrics/{name}/memories/export",
    url_name="api-fabric-memories-export",
    operation_id="exportMemories",
    openapi_extra={"responses": {200: {"content": {NDJSON: {"schema": {"type": "string"}}}}}},
)
def export_memories(
    request: HttpRequest,
    name: str = FABRIC,
    memory: Annotated[
        str, Query(max_length=MEMORY_CHARS, description="This one alone; empty: all.", example="suppliers")
    ] = "",
) -> FileResponse:
    """Export what a fabric remembers. Every entry of the ledger as a line of JSON; told in the audit stream."""
    return memories_response(actor_of(request), name, memory)


@router.post(
    "/fabrics/{name}/memories/reveal",
    response=HistoryOut,
    url_name="api-fabric-memory-reveal",
    operation_id="revealMemory",
)
def reveal_memory(request: HttpRequest, body: Annotated[MemoryRevealIn, Body()], name: str = FABRIC) -> HistoryOut:
    """Reveal what is withheld of a version under a key. For the role safety; the audit stream is told. 409 where nothing is withheld."""
    found = memory_reveal(actor=actor_of(request), fabric=name, **body.model_dump())
    return HistoryOut(count=found.count, entries=[_written(one) for one in found.entries])


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


def _written(one: Written) -> WrittenOut:
    more = {"became": one.became, "deleted": one.deleted, "reason": one.reason}
    return WrittenOut(**_entry(one).model_dump(), **more)


def _entry(one: Remembered) -> EntryOut:
    return EntryOut(
        key=one.key,
        version=one.version,
        value=one.value,
        withheld=one.withheld,
        erased=one.erased,
        run_id=one.run_id,
        stage=one.stage,
        agent=one.agent,
        actor=one.actor,
        at=instant(one.at),
    )
