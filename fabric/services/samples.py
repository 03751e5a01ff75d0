"""The sample fabrics that come with the product."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from django.conf import settings

from fabric.adapters.tools.outbound import Gate
from fabric.core.actor import Actor
from fabric.models import Fabric
from fabric.services.fabric_yaml import fabric_read
from fabric.services.fabrics import fabric_publish_read

SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def samples_publish(*, actor: Actor, providers: Collection[str] = ()) -> list[str]:
    """Publishes each sample whose name the workspace does not have yet; what somebody made of one is left alone. Returns the new names.

    A sample whose tools need an address that FABRIC_ALLOWED_HOSTS does not list waits until it does.
    """
    gate = Gate.of(settings.FABRIC_ALLOWED_HOSTS)
    there = set(Fabric.objects.filter(workspace_id=actor.workspace_id).values_list("name", flat=True))
    published = []
    for path in sorted(SAMPLES.glob("*.yaml"), key=lambda path: path.stem):
        if path.stem in there:  # Their files are named after them: what is there already costs a start nothing.
            continue
        read = fabric_read(path.read_text(encoding="utf-8"), origin=path.name)
        if not any(gate.problem(tool.target) for tool in read.spec.tools if tool.kind == "http"):
            found = fabric_publish_read(actor=actor, read=read, providers=providers)
            published.append(found.name)
    return published
