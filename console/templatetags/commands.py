"""Shows commands that can be pasted into a shell of the machine on which this program runs."""

from __future__ import annotations

from django import template
from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.launch.processes.data_directory import find_up
from fabric.program.name import program as called

register = template.Library()


@register.simple_tag
def program() -> str:
    """Return the name by which this program is called in a shell."""
    return called()


@register.simple_tag
def start_worker() -> SafeString:
    """Say how a worker is started: with `up`, or at the `up` whose worker does not answer."""
    if (pid := find_up(settings.FABRIC_DATA)) is None:
        return format_html("Start one: <code>{} up</code>", called())
    return format_html(
        "<code>up</code> runs as process {}, but its worker does not answer: end it with Ctrl-C, and start it again.",
        pid,
    )
