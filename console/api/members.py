"""Members: who there is, inviting people, giving and taking roles, removing."""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from ninja import Path, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.roles import Right
from fabric.selectors.members import InvitationView, MemberView, invitations_open, member_get, members_list
from fabric.services.invitations import DAYS, DAYS_MAX, invitation_create, invitation_revoke
from fabric.services.members import ROLES_MAX, member_remove, member_roles_set, service_create

router = Router(tags=["members"])
ROLES = {
    "description": "Roles that carry rights, and names by which fabrics ask for people.",
    "examples": [["reviewer"]],
}


class MemberOut(Told):
    """A member of the workspace."""

    name: str = Field(description="Stands in journals and in the audit stream.", examples=["rosa"])
    roles: list[str] = Field(**ROLES)  # type: ignore[call-overload]
    service: bool = Field(
        description="Whether it is an account of programs: it never signs in, and answers only what its roles name.",
        examples=[False],
    )
    active: bool = Field(description="False: the user was switched off.", examples=[True])
    since: Instant = Field(description="When they became a member.")
    added_by: str = Field(description="By whom; system: they were there before there were members.", examples=["owner"])
    last_sign_in: Instant | None = Field(description="When they last signed in; null: never.")
    tokens: int = Field(description="Tokens that act for them.", examples=[1])


class InvitationOut(Told):
    """An open invitation."""

    id: str = Field(description="Its id.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"])
    roles: list[str] = Field(**ROLES)  # type: ignore[call-overload]
    email: str = Field(description="For whom it is; empty: for whoever has the link.", examples=["rosa@example.org"])
    created_at: Instant = Field(description="When it was made.")
    created_by: str = Field(description="By whom.", examples=["owner"])
    expires_at: Instant = Field(description="Until when its link works.")


class MembersOut(Told):
    """Who belongs to the workspace."""

    members: list[MemberOut] = Field(description="People first, by name.")
    invitations: list[InvitationOut] = Field(description="The open ones, the newest first; for owners, else empty.")


class CreatedOut(Told):
    """A new invitation."""

    id: str = Field(description="Its id.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"])
    roles: list[str] = Field(**ROLES)  # type: ignore[call-overload]
    email: str = Field(description="For whom it is.", examples=["rosa@example.org"])
    expires_at: Instant = Field(description="Until when its link works.")
    link: str = Field(
        description="Shown this once: whoever opens it first becomes a member.",
        examples=["https://fabric.example/invitations#Zm9yIG9uZSBwZXJzb24"],
    )


class RevokedOut(Told):
    """What became of an invitation."""

    id: str = Field(description="Its id.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"])
    changed: bool = Field(description="False: it was revoked before.", examples=[True])


class RemovedOut(Told):
    """What became of a member."""

    name: str = Field(description="Who was removed.", examples=["rosa"])
    tokens_revoked: int = Field(
        description="Tokens that were revoked with it: theirs, and those that they made.", examples=[1]
    )
    invitations_revoked: int = Field(description="Open invitations of theirs that were.", examples=[0])


class InvitationIn(Given):
    """Who is invited to what."""

    roles: list[str] = Field(max_length=ROLES_MAX, **ROLES)  # type: ignore[call-overload]
    email: str = Field(
        "", max_length=254, description="For whom it is; nothing is sent there.", examples=["rosa@example.org"]
    )
    days: int = Field(DAYS, ge=1, le=DAYS_MAX, description="How long its link works.", examples=[DAYS])


class RolesIn(Given):
    """The roles of a member."""

    roles: list[str] = Field(max_length=ROLES_MAX, **ROLES)  # type: ignore[call-overload]
    before: list[str] | None = Field(
        None,
        max_length=ROLES_MAX,
        description="Those that were seen: 409 where others stand by now.",
        examples=[["viewer"]],
    )


class ServiceIn(Given):
    """An account of programs."""

    name: str = Field(max_length=150, description="What it is called.", examples=["nightly-import"])
    roles: list[str] = Field(max_length=ROLES_MAX, **ROLES)  # type: ignore[call-overload]


Name = Annotated[str, Path(description="The member's name.", example="rosa")]


@router.get("/members", response=MembersOut, url_name="api-members", operation_id="listMembers")
def list_members(request: HttpRequest) -> MembersOut:
    """List members. People and accounts of programs with their roles, and for an owner the open invitations."""
    actor = actor_of(request)
    invited = invitations_open(actor) if actor.may(Right.MEMBERS) else []
    return MembersOut(
        members=[_member(one) for one in members_list(actor)], invitations=[_invitation(one) for one in invited]
    )


@router.post("/members/invitations", response=CreatedOut, url_name="api-invitations", operation_id="inviteMember")
def invite_member(request: HttpRequest, body: InvitationIn) -> CreatedOut:
    """Invite somebody. The answer has the link, this once: it works for one person, until it expires or is revoked. For owners."""
    made = invitation_create(actor=actor_of(request), roles=body.roles, email=body.email, days=body.days)
    link = f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}{reverse('invitation')}#{made.token}"
    return CreatedOut(
        id=made.id, roles=list(made.roles), email=made.email, expires_at=instant(made.expires_at), link=link
    )


@router.post("/members/invitations/{invitation_id}/revoke", response=RevokedOut, url_name="api-invitation-revoke", operation_id="revokeInvitation")  # fmt: skip
def revoke_invitation(
    request: HttpRequest,
    invitation_id: Annotated[str, Path(description="Its id, as listed.", example="7d5e3c1f0a9b48269f1e2d3c4b5a6978")],
) -> RevokedOut:
    """Revoke an invitation. Nobody comes in by its link any more. For owners."""
    changed = invitation_revoke(actor=actor_of(request), invitation_id=invitation_id)
    return RevokedOut(id=invitation_id, changed=changed)


@router.post(
    "/members/services", response=MemberOut, url_name="api-member-services", operation_id="createServiceAccount"
)
def create_service_account(request: HttpRequest, body: ServiceIn) -> MemberOut:
    """Make a service account. It comes in by tokens alone, and some roles are not for it. It answers nothing but what a role such as decides:payments:pre_action names. For owners."""
    actor = actor_of(request)
    return _member(member_get(actor, service_create(actor=actor, name=body.name, roles=body.roles)))


@router.post("/members/{name}/roles", response=MemberOut, url_name="api-member-roles", operation_id="setMemberRoles")
def set_member_roles(request: HttpRequest, name: Name, body: RolesIn) -> MemberOut:
    """Give a member exactly these roles. They hold from the next request on. The last owner stays one. For owners."""
    actor = actor_of(request)
    member_roles_set(actor=actor, name=name, roles=body.roles, before=body.before)
    return _member(member_get(actor, name))


@router.post("/members/{name}/remove", response=RemovedOut, url_name="api-member-remove", operation_id="removeMember")
def remove_member(request: HttpRequest, name: Name) -> RemovedOut:
    """Remove a member. Sign-ins, tokens that act for them or that they made, and their open invitations are over at once; what was done in that name stays. For owners."""
    ended = member_remove(actor=actor_of(request), name=name)
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
