"""Bearer tokens: those that there are, making one, and ending one."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.roles import Right
from fabric.core.scopes import Scope
from fabric.selectors.tokens import TokenView, tokens_list
from fabric.services.tokens import DAYS, DAYS_MAX, FABRICS_MAX, token_create, token_revoke

router = Router(tags=["members"])
LIST_MAX = 500
ScopeName = Literal["read", "start", "decide", "publish", "operate", "manage"]
CONFINED = "The fabrics to which it is confined: it sees and starts these alone. Empty: every one that its member sees."


class TokenOut(Told):
    """A token; what it is made of is shown once, when it is made."""

    name: str = Field(description="Its name, once among those that are not revoked.", examples=["nightly"])
    user: str = Field(description="For whom it acts.", examples=["nightly-import"])
    scopes: list[ScopeName] = Field(description="What it may do; none includes another.", examples=[["read"]])
    state: Literal["active", "expired", "revoked"] = Field(description="Whether it lets anybody in.")
    created_at: Instant = Field(description="When it was made.")
    created_by: str = Field(description="By whom.", examples=["owner"])
    fabrics: list[str] = Field(description=CONFINED, examples=[["research-desk"]])
    expires_at: Instant = Field(description="Until when it lets anybody in.")
    revoked_at: Instant | None = Field(description="When it was revoked; null: it was not.")
    last_used_at: Instant | None = Field(description="When it was last used, to within a minute; null: never.")


class TokensOut(Told):
    """Tokens of the workspace."""

    tokens: list[TokenOut] = Field(description=f"The newest first, {LIST_MAX} at most.")


class CreatedTokenOut(Told):
    """A new token."""

    name: str = Field(description="Its name.", examples=["nightly"])
    user: str = Field(description="For whom it acts.", examples=["nightly-import"])
    scopes: list[ScopeName] = Field(description="What it may do.", examples=[["read"]])
    fabrics: list[str] = Field(description=CONFINED, examples=[["research-desk"]])
    expires_at: Instant = Field(description="Until when it lets anybody in.")
    secret: str = Field(description="The token itself, shown this once: it is kept nowhere.", examples=["ff_..."])


class RevokedTokenOut(Told):
    """What became of a token."""

    name: str = Field(description="Its name, which is free again.", examples=["nightly"])
    changed: bool = Field(description="False: it was revoked before.", examples=[True])


class TokenIn(Given):
    """A token that is to be made."""

    name: str = Field(max_length=63, description="What it is called.", examples=["nightly"])
    user: str = Field(
        "",
        max_length=150,
        description="The service account for which it acts; empty: the caller.",
        examples=["nightly-import"],
    )
    scopes: list[ScopeName] = Field(
        min_length=1,
        max_length=len(Scope),
        description="What it may do. A service account's decides what its roles name (decides:FABRIC:KIND).",
        examples=[["read"]],
    )
    fabrics: list[str] = Field([], max_length=FABRICS_MAX, description=CONFINED, examples=[["research-desk"]])
    days: int = Field(DAYS, ge=1, le=DAYS_MAX, description="After how many days it expires.", examples=[90])


Name = Annotated[str, Path(description="The token's name.", example="nightly")]


@router.get("/tokens", response=TokensOut, url_name="api-tokens", operation_id="listTokens")
def list_tokens(
    request: HttpRequest,
    user: Annotated[str, Query(max_length=150, description="Only those that act for this member.")] = "",
) -> TokensOut:
    """List tokens. One's own, and for owners everybody's; never what a token is made of."""
    actor = actor_of(request)
    mine = not actor.may(Right.MEMBERS)
    found = (
        []
        if mine and user not in ("", actor.name)
        else tokens_list(actor, user=actor.name if mine else user, limit=LIST_MAX)
    )
    now = time.time_ns() // 1_000
    return TokensOut(tokens=[_told(one, now) for one in found])


@router.post("/tokens", response=CreatedTokenOut, url_name="api-tokens", operation_id="createToken")
def create_token(request: HttpRequest, body: TokenIn) -> CreatedTokenOut:
    """Make a token. The answer has it, this once. For oneself, and for service accounts for owners; in a browser, signed in within the last 15 minutes: a token makes none."""
    made = token_create(
        actor=actor_of(request),
        name=body.name,
        user=body.user,
        scopes=body.scopes,
        fabrics=body.fabrics,
        expires_days=body.days,
    )
    return CreatedTokenOut(
        name=made.name,
        user=made.user,
        scopes=[one.value for one in made.scopes],
        fabrics=list(made.fabrics),
        expires_at=instant(made.expires_at),
        secret=made.secret,
    )


@router.post("/tokens/{name}/revoke", response=RevokedTokenOut, url_name="api-token-revoke", operation_id="revokeToken")
def revoke_token(request: HttpRequest, name: Name) -> RevokedTokenOut:
    """Revoke a token. It lets nobody in from the next request on. One's own; those of others for owners."""
    return RevokedTokenOut(name=name, changed=token_revoke(actor=actor_of(request), name=name))


def _told(one: TokenView, now: int) -> TokenOut:
    return TokenOut(
        name=one.name,
        user=one.user,
        scopes=list(one.scopes),
        fabrics=list(one.fabrics),
        state=one.state(now),
        created_at=instant(one.created_at),
        created_by=one.created_by,
        expires_at=instant(one.expires_at),
        revoked_at=instant(one.revoked_at),
        last_used_at=instant(one.last_used_at),
    )
