"""Adds channels of chats to which reviews go, and removes them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from console.pages.notifications.views import ChannelForm, show_notifications
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.notifications import ChannelRow
from fabric.selectors.errors import Refused
from fabric.services.people.chat_routes import ADDRESS_CHARS_MAX, chat_route_add, chat_route_remove

TEXT_CHARS_MAX = 200


@sensitive_post_parameters("address")
@require_POST
def add_channel(request: HttpRequest) -> HttpResponse:
    """Add a channel. 422 and 409: it is refused, and the page keeps what is no secret."""
    actor = find_actor(request.user)
    channel, fabric = (request.POST.get(name, "").strip()[:TEXT_CHARS_MAX] for name in ("channel", "fabric"))
    address = request.POST.get("address", "")[: ADDRESS_CHARS_MAX + 1]
    try:
        added = ChannelRow(chat_route_add(actor=actor, channel=channel, address=address, fabric=fabric))
    except Refused as refusal:
        if refusal.code not in ("invalid", "conflict", "not_found"):
            raise
        said = sentence(refusal.message)
        form = ChannelForm(channel=channel, fabric=fabric, said=said, field=refusal.field or "address")
        status = errors.STATUS["invalid" if refusal.code == "not_found" else refusal.code]
        return show_notifications(request, status=status, channel=form)
    messages.success(request, f"{added.hears} go to {added.chat} from now on.")
    return redirect("notifications")


@require_POST
def remove_channel(request: HttpRequest, channel_id: str) -> HttpResponse:
    """Remove a channel."""
    removed = ChannelRow(chat_route_remove(actor=find_actor(request.user), route_id=channel_id))
    messages.success(request, f"{removed.hears} go to that channel of {removed.chat} no more.")
    return redirect("notifications")
