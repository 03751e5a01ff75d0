"""Operations on memories: keys, history of a key, writing, deleting, and export as a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import FileResponse, HttpRequest
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from console.site.downloads import NDJSON, memories_response
from fabric.core.spec.memories import KEY_CHARS
from fabric.selectors.memories.lookup import (
    ENTRIES_SHOWN,
    KEYS_SHOWN,
    EntryFate,
    LedgerEntry,
    MemoryView,
    PresentEntry,
    list_fabric_memories,
    memory_history,
)
from fabric.services.memories.changes import memory_delete, memory_write
from fabric.services.reviews.reveals import memory_reveal
from fabric.services.runs.start import REASON_CHARS_MAX

router = Router(tags=["memories"])
VERSION_MAX = 2**63 - 1
MEMORY_CHARS = 40
FABRIC = Path(..., description="The fabric's name.", example="research-desk")


class EntryOut(ResponseShape):
    """Value of a key."""

    key: str = Field(description="Its key.", examples=["supplier/acme"])
    version: int = Field(description="Version of this key's value; never reused.", examples=[3])
    value: Any = Field(description="Its value, any JSON, with credentials masked; null as well where it was erased.")
    withheld: bool = Field(
        description="True if the value contains masked credentials. The role safety may reveal them."
    )
    erased: bool = Field(description="True if the value was erased.")
    run_id: str = Field(description="The run that wrote it; empty: a person did.")
    stage: str = Field(description="The stage in which it was written; empty: a person wrote it.", examples=["fan_out"])
    agent: str = Field(description="The agent that wrote it; empty: a person did.", examples=["researcher"])
    actor: str = Field(description="The person who wrote it; empty: an agent did.")
    at: Instant = Field(description="When it was written.")


class MemoryOut(ResponseShape):
    """A memory of a fabric."""

    name: str = Field(description="Its name.", examples=["suppliers"])
    scope: Literal["run", "fabric"] = Field(
        description="run: in each run's journal, not here; fabric: of all its runs."
    )
    description: str = Field(description="Description by the author; may be empty.")
    keys: int = Field(description="Keys that hold a value; 0 for scope run.", examples=[12])
    keys_max: int = Field(description="So many may.", examples=[100])
    writers: list[str] = Field(description="Agents that may write.")
    readers: list[str] = Field(description="Agents that may read.")
    deleters: list[str] = Field(description="Agents that may delete.")
    entries: list[EntryOut] = Field(description=f"Current values by key; the first {KEYS_SHOWN}.")


class MemoriesOut(ResponseShape):
    """Memories of a fabric."""

    memories: list[MemoryOut] = Field(description="In the order in which the fabric declares them.")


class WrittenOut(EntryOut):
    """A past entry of a key: a value, or a deletion."""

    became: EntryFate = Field(
        description="Kind of the entry; a deletion also erases the older values.",
        examples=["replaced"],
    )
    deleted: bool = Field(description="True for a deletion, which has no value.")
    reason: str = Field(description="Why a person wrote or deleted it; empty: an agent did.")


class HistoryOut(ResponseShape):
    """History of a key."""

    count: int = Field(description="Entries that the ledger has.", examples=[12])
    entries: list[WrittenOut] = Field(description=f"The newest {ENTRIES_SHOWN}, the newest first.")


class WriteIn(RequestShape):
    """Value to write, its key, the version that the caller has seen, and the reason."""

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
        examples=["The office confirmed it."],
    )


class MemoryRevealIn(RequestShape):
    """Version and key to reveal."""

    memory: str = Field(min_length=1, max_length=MEMORY_CHARS, description="The memory's name.", examples=["suppliers"])
    key: str = Field(min_length=1, max_length=KEY_CHARS, description="Its key.", examples=["supplier/acme"])
    version: int = Field(ge=1, le=VERSION_MAX, description="As its history lists it.", examples=[3])


class DeleteIn(RequestShape):
    """Key to delete, the version that the caller has seen, and the reason."""

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
    """List a fabric's memories. With the value, version and origin of each key."""
    return MemoriesOut(memories=[_memory_shape(one) for one in list_fabric_memories(find_actor(request), name)])


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
    """Get the history of a key. With the fate of each entry, as far back as the ledger goes."""
    found = memory_history(find_actor(request), name, memory, key)
    return HistoryOut(count=found.count, entries=[_entry_shape(one) for one in found.entries])


@router.post(
    "/fabrics/{name}/memories/write",
    response=MemoriesOut,
    url_name="api-fabric-memory-write",
    operation_id="writeMemory",
)
def write_memory(request: HttpRequest, body: Annotated[WriteIn, Body()], name: str = FABRIC) -> MemoriesOut:
    """Write a value under a key. Later runs read it as a person's; no run takes it back. For the owner and
    operators.
    """
    actor = find_actor(request)
    memory_write(actor=actor, fabric=name, **body.model_dump())
    return MemoriesOut(memories=[_memory_shape(one) for one in list_fabric_memories(actor, name)])


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
    """Export the memories of a fabric. Every entry of the ledger as a line of JSON; the audit stream records it."""
    return memories_response(find_actor(request), name, memory)


@router.post(
    "/fabrics/{name}/memories/reveal",
    response=HistoryOut,
    url_name="api-fabric-memory-reveal",
    operation_id="revealMemory",
)
def reveal_memory(request: HttpRequest, body: Annotated[MemoryRevealIn, Body()], name: str = FABRIC) -> HistoryOut:
    """Reveal the withheld content of a version of a key. For the role safety; the audit stream records it. 409 if
    nothing is withheld.
    """
    found = memory_reveal(actor=find_actor(request), fabric=name, **body.model_dump())
    return HistoryOut(count=found.count, entries=[_entry_shape(one) for one in found.entries])


@router.post(
    "/fabrics/{name}/memories/delete",
    response=MemoriesOut,
    url_name="api-fabric-memory-delete",
    operation_id="deleteMemory",
)
def delete_memory(request: HttpRequest, body: Annotated[DeleteIn, Body()], name: str = FABRIC) -> MemoriesOut:
    """Delete a key. Its values are erased, and no run reads them any more. For the owner and operators."""
    actor = find_actor(request)
    memory_delete(actor=actor, fabric=name, **body.model_dump())
    return MemoriesOut(memories=[_memory_shape(one) for one in list_fabric_memories(actor, name)])


def _memory_shape(one: MemoryView) -> MemoryOut:
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


def _entry_shape(one: LedgerEntry) -> WrittenOut:
    more = {"became": one.became, "deleted": one.deleted, "reason": one.reason}
    return WrittenOut(**_entry(one).model_dump(), **more)


def _entry(one: PresentEntry) -> EntryOut:
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
