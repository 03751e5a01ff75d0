"""Operations on members, and on bearer tokens, which are listed, made and revoked."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from ninja import Path, Query, Router
from pydantic import Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.core.people.roles import Right
from fabric.core.people.scopes import Scope
from fabric.selectors.people import (
    InvitationView,
    MemberView,
    TokenView,
    invitations_open,
    member_get,
    members_list,
    tokens_list,
)
from fabric.services.people.invitations import DAYS, DAYS_MAX, invitation_create, invitation_revoke
from fabric.services.people.members import ROLES_MAX, member_remove, member_roles_set, service_create
from fabric.services.people.tokens import DAYS as TOKEN_DAYS
from fabric.services.people.tokens import DAYS_MAX as TOKEN_DAYS_MAX
from fabric.services.people.tokens import FABRICS_MAX, token_create, token_revoke

router = Router(tags=["members"])
ROLES = {
    "description": "Roles that give rights, and labels that the review rules of fabrics use.",
    "examples": [["reviewer"]],
}


class MemberOut(ResponseShape):
    """A member of the workspace."""

    name: str = Field(description="Name of the member, as in journals and in the audit stream.", examples=["rosa"])
    roles: list[str] = Field(**ROLES)  # type: ignore[call-overload]
    service: bool = Field(
        description="True for a service account: it never signs in, and decides only reviews that its roles name.",
        examples=[False],
    )
    active: bool = Field(description="False: the user was switched off.", examples=[True])
    since: Instant = Field(description="When they became a member.")
    added_by: str = Field(description="By whom; system: they were there before there were members.", examples=["owner"])
    last_sign_in: Instant | None = Field(description="When they last signed in; null: never.")
    tokens: int = Field(description="Tokens that act for them.", examples=[1])


class InvitationOut(ResponseShape):
    """An open invitation."""

    id: str = Field(description="Its id.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"])
    roles: list[str] = Field(**ROLES)  # type: ignore[call-overload]
    email: str = Field(description="For whom it is; empty: for anyone with the link.", examples=["rosa@example.org"])
    created_at: Instant = Field(description="When it was made.")
    created_by: str = Field(description="By whom.", examples=["owner"])
    expires_at: Instant = Field(description="Until when its link works.")


class MembersOut(ResponseShape):
    """Members of the workspace."""

    members: list[MemberOut] = Field(description="People first, by name.")
    invitations: list[InvitationOut] = Field(description="The open ones, the newest first; for owners, else empty.")


class CreatedOut(ResponseShape):
    """A new invitation."""

    id: str = Field(description="Its id.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"])
    roles: list[str] = Field(**ROLES)  # type: ignore[call-overload]
    email: str = Field(description="For whom it is.", examples=["rosa@example.org"])
    expires_at: Instant = Field(description="Until when its link works.")
    link: str = Field(
        description="Shown this once: the first person to open it becomes a member.",
        examples=["https://fabric.example/invitations#Zm9yIG9uZSBwZXJzb24"],
    )


class RevokedOut(ResponseShape):
    """Result of revoking an invitation."""

    id: str = Field(description="Its id.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"])
    changed: bool = Field(description="False: it was revoked before.", examples=[True])


class RemovedOut(ResponseShape):
    """Result of removing a member."""

    name: str = Field(description="The removed member.", examples=["rosa"])
    tokens_revoked: int = Field(
        description="Tokens that were revoked with it: theirs, and those that they made.", examples=[1]
    )
    invitations_revoked: int = Field(description="Open invitations of theirs that were.", examples=[0])


class InvitationIn(RequestShape):
    """Roles and address of an invitation."""

    roles: list[str] = Field(max_length=ROLES_MAX, **ROLES)  # type: ignore[call-overload]
    email: str = Field(
        "", max_length=254, description="For whom it is; nothing is sent there.", examples=["rosa@example.org"]
    )
    days: int = Field(DAYS, ge=1, le=DAYS_MAX, description="How long its link works.", examples=[DAYS])


class RolesIn(RequestShape):
    """The roles of a member."""

    roles: list[str] = Field(max_length=ROLES_MAX, **ROLES)  # type: ignore[call-overload]
    before: list[str] | None = Field(
        None,
        max_length=ROLES_MAX,
        description="Those that were seen: 409 where others stand by now.",
        examples=[["viewer"]],
    )


class ServiceIn(RequestShape):
    """An account of programs."""

    name: str = Field(max_length=150, description="Name of the account.", examples=["nightly-import"])
    roles: list[str] = Field(max_length=ROLES_MAX, **ROLES)  # type: ignore[call-overload]


Name = Annotated[str, Path(description="The member's name.", example="rosa")]


@router.get("/members", response=MembersOut, url_name="api-members", operation_id="listMembers")
def list_members(request: HttpRequest) -> MembersOut:
    """List members. People and accounts of programs with their roles, and for an owner the open invitations."""
    actor = find_actor(request)
    invited = invitations_open(actor) if actor.may(Right.MEMBERS) else []
    return MembersOut(
        members=[_member(one) for one in members_list(actor)], invitations=[_invitation(one) for one in invited]
    )


@router.post("/members/invitations", response=CreatedOut, url_name="api-invitations", operation_id="inviteMember")
def invite_member(request: HttpRequest, body: InvitationIn) -> CreatedOut:
    """Invite a person. The answer has the link, this once: it works for one person, until it expires or is revoked.
    For owners.
    """
    made = invitation_create(actor=find_actor(request), roles=body.roles, email=body.email, days=body.days)
    link = f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}{reverse('invitation')}#{made.token}"
    return CreatedOut(
        id=made.id, roles=list(made.roles), email=made.email, expires_at=instant(made.expires_at), link=link
    )


@router.post("/members/invitations/{invitation_id}/revoke", response=RevokedOut, url_name="api-invitation-revoke", operation_id="revokeInvitation")  # fmt: skip
def revoke_invitation(
    request: HttpRequest,
    invitation_id: Annotated[str, Path(description="Its id, as listed.", example="7d5e3c1f0a9b48269f1e2d3c4b5a6978")],
) -> RevokedOut:
    """Revoke an invitation. Its link stops working. For owners."""
    changed = invitation_revoke(actor=find_actor(request), invitation_id=invitation_id)
    return RevokedOut(id=invitation_id, changed=changed)


@router.post(
    "/members/services", response=MemberOut, url_name="api-member-services", operation_id="createServiceAccount"
)
def create_service_account(request: HttpRequest, body: ServiceIn) -> MemberOut:
    """Make a service account. It comes in by tokens alone, and some roles are not for it. It answers only reviews
    that a role such as decides:payments:pre_action names. For owners.
    """
    actor = find_actor(request)
    return _member(member_get(actor, service_create(actor=actor, name=body.name, roles=body.roles)))


@router.post("/members/{name}/roles", response=MemberOut, url_name="api-member-roles", operation_id="setMemberRoles")
def set_member_roles(request: HttpRequest, name: Name, body: RolesIn) -> MemberOut:
    """Give a member exactly these roles. They count from the next request on. The last owner stays one. For owners."""
    actor = find_actor(request)
    member_roles_set(actor=actor, name=name, roles=body.roles, before=body.before)
    return _member(member_get(actor, name))


@router.post("/members/{name}/remove", response=RemovedOut, url_name="api-member-remove", operation_id="removeMember")
def remove_member(request: HttpRequest, name: Name) -> RemovedOut:
    """Remove a member. Sign-ins, tokens that act for them or that they made, and their open invitations end at once;
    acts in that name stay. For owners.
    """
    ended = member_remove(actor=find_actor(request), name=name)
    return RemovedOut(name=name, tokens_revoked=ended.tokens, invitations_revoked=ended.invitations)


def _member(one: MemberView) -> MemberOut:
    return MemberOut(
        name=one.name,
        roles=list(one.roles),
        service=one.service,
        active=one.active,
        since=instant(one.since),
        added_by=one.added_by,
        last_sign_in=instant(one.last_sign_in),
        tokens=one.tokens,
    )


def _invitation(one: InvitationView) -> InvitationOut:
    return InvitationOut(
        id=one.id,
        roles=list(one.roles),
        email=one.email,
        created_at=instant(one.created_at),
        created_by=one.created_by,
        expires_at=instant(one.expires_at),
    )


token_router = Router(tags=["members"])
LIST_MAX = 500
ScopeName = Literal["read", "start", "decide", "publish", "operate", "manage"]
CONFINED = "The fabrics to which it is confined: it sees and starts these alone. Empty: every one that its member sees."


class TokenOut(ResponseShape):
    """A token; its secret is shown once, when it is made."""

    name: str = Field(description="Its name, once among those that are not revoked.", examples=["nightly"])
    user: str = Field(description="For whom it acts.", examples=["nightly-import"])
    scopes: list[ScopeName] = Field(description="Scopes of the token; none includes another.", examples=[["read"]])
    state: Literal["active", "expired", "revoked"] = Field(description="True if the token works.")
    created_at: Instant = Field(description="When it was made.")
    created_by: str = Field(description="By whom.", examples=["owner"])
    fabrics: list[str] = Field(description=CONFINED, examples=[["research-desk"]])
    expires_at: Instant = Field(description="End of the token's validity.")
    revoked_at: Instant | None = Field(description="When it was revoked; null: it was not.")
    last_used_at: Instant | None = Field(description="When it was last used, to within a minute; null: never.")


class TokensOut(ResponseShape):
    """Tokens of the workspace."""

    tokens: list[TokenOut] = Field(description=f"The newest first, {LIST_MAX} at most.")


class CreatedTokenOut(ResponseShape):
    """A new token."""

    name: str = Field(description="Its name.", examples=["nightly"])
    user: str = Field(description="For whom it acts.", examples=["nightly-import"])
    scopes: list[ScopeName] = Field(description="Scopes of the token.", examples=[["read"]])
    fabrics: list[str] = Field(description=CONFINED, examples=[["research-desk"]])
    expires_at: Instant = Field(description="End of the token's validity.")
    secret: str = Field(description="The token itself, shown this once: it is kept nowhere.", examples=["ff_..."])


class RevokedTokenOut(ResponseShape):
    """Result of revoking a token."""

    name: str = Field(description="Its name, which is free again.", examples=["nightly"])
    changed: bool = Field(description="False: it was revoked before.", examples=[True])


class TokenIn(RequestShape):
    """Settings of a new token."""

    name: str = Field(max_length=63, description="Name of the token.", examples=["nightly"])
    user: str = Field(
        "",
        max_length=150,
        description="The service account for which it acts; empty: the caller.",
        examples=["nightly-import"],
    )
    scopes: list[ScopeName] = Field(
        min_length=1,
        max_length=len(Scope),
        description="Scopes of the token. A service account's token decides only reviews that its roles name (decides:FABRIC:KIND).",
        examples=[["read"]],
    )
    fabrics: list[str] = Field([], max_length=FABRICS_MAX, description=CONFINED, examples=[["research-desk"]])
    days: int = Field(TOKEN_DAYS, ge=1, le=TOKEN_DAYS_MAX, description="After how many days it expires.", examples=[90])


TokenName = Annotated[str, Path(description="The token's name.", example="nightly")]


@token_router.get("/tokens", response=TokensOut, url_name="api-tokens", operation_id="listTokens")
def list_tokens(
    request: HttpRequest,
    user: Annotated[str, Query(max_length=150, description="Only those that act for this member.")] = "",
) -> TokensOut:
    """List tokens. One's own, and for owners those of all members; never their secrets."""
    actor = find_actor(request)
    mine = not actor.may(Right.MEMBERS)
    found = (
        []
        if mine and user not in ("", actor.name)
        else tokens_list(actor, user=actor.name if mine else user, limit=LIST_MAX)
    )
    now = time.time_ns() // 1_000
    return TokensOut(tokens=[_token_shape(one, now) for one in found])


@token_router.post("/tokens", response=CreatedTokenOut, url_name="api-tokens", operation_id="createToken")
def create_token(request: HttpRequest, body: TokenIn) -> CreatedTokenOut:
    """Make a token. The answer has its secret, this once. For oneself, and for service accounts by owners; in a
    browser, signed in within the last 15 minutes: a token makes none.
    """
    made = token_create(
        actor=find_actor(request),
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


@token_router.post(
    "/tokens/{name}/revoke", response=RevokedTokenOut, url_name="api-token-revoke", operation_id="revokeToken"
)
def revoke_token(request: HttpRequest, name: TokenName) -> RevokedTokenOut:
    """Revoke a token. It stops working with the next request. One's own; those of others for owners."""
    return RevokedTokenOut(name=name, changed=token_revoke(actor=find_actor(request), name=name))


def _token_shape(one: TokenView, now: int) -> TokenOut:
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
