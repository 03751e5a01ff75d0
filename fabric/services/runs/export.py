"""Exports a run as a bundle that verifies offline."""

from __future__ import annotations

from pathlib import Path
from tempfile import SpooledTemporaryFile, TemporaryDirectory
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile

from fabric.core.audit.lines import Act, checkpoint_read
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.models import Checkpoint
from fabric.secrets.signing import Signer
from fabric.selectors.runs.export.bundle import BYTES, Bundle, EventLines
from fabric.selectors.runs.lookup import run_get
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal, checkpoint_make
from fabric.services.errors import Refused

TRIES = 5
ZIP_IN_MEMORY = 4_000_000
"""Bytes of a bundle in memory before it goes to a file."""


def run_export(*, actor: Actor, run_id: str, to: Path, signer: Signer, checkpoints: Path | None = None) -> Path:
    """Write a run's bundle into a new or empty directory, with a checkpoint of the run's journal. Return the directory.

    Raises Refused: not_found, forbidden, conflict (the directory is not empty), unavailable (the run keeps moving);
    OSError.
    """
    run_get(actor, run_id)
    _may_take_bytes(actor)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise Refused(f"{to} is there and not empty; name a new directory", code="conflict", field="to")
    audit_record(actor=actor, act=Act.RUN_EXPORTED, subject=run_id)
    audit_seal()
    for _ in range(TRIES):
        checkpoint = _checkpoint(actor, run_id, signer, checkpoints)
        bundle = Bundle(actor, run_id, checkpoint)
        covered = {name: seq for name, seq, _ in checkpoint_read(bytes(checkpoint.body)).runs}
        if covered.get(run_id, 0) == bundle.last_seq:
            break
    else:
        raise Refused(f"run {run_id} goes on while it is exported; try again when it rests", code="unavailable")
    to.mkdir(parents=True, exist_ok=True)
    for name, pieces in bundle.files():
        with (to / name).open("wb") as file:
            file.writelines(pieces)
    return to


def run_export_zip(*, actor: Actor, run_id: str, signer: Signer, checkpoints: Path | None = None) -> IO[bytes]:
    """Return a run's bundle as one ZIP file in a folder of the run's name, open at its beginning. Closing it deletes
    it. Raises as ``run_export``.
    """
    packed = SpooledTemporaryFile(max_size=ZIP_IN_MEMORY)  # noqa: SIM115 - the caller closes it.
    with TemporaryDirectory(prefix="fabric-export-") as folder:
        to = run_export(actor=actor, run_id=run_id, to=Path(folder) / "run", signer=signer, checkpoints=checkpoints)
        with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
            for file in sorted(to.iterdir()):
                archive.write(file, f"run-{run_id}/{file.name}")
    packed.seek(0)
    return packed


def run_lines(*, actor: Actor, run_id: str, form: str) -> EventLines:
    """Return a run's events as lines: ``readable`` with credentials masked and contents by right, or ``journal``
    byte for byte.

    The audit stream records the second. Raises Refused: not_found, invalid (form), forbidden.
    """
    lines = EventLines(actor, run_id, form)
    if form == BYTES:
        _may_take_bytes(actor)
        audit_record(actor=actor, act=Act.RUN_EXPORTED, subject=run_id, form=form)
    return lines


def may_take_bytes(actor: Actor) -> bool:
    """Returns True where the actor may export a run's journal byte for byte, with its contents."""
    return actor.may(Right.CONTENTS) and (actor.may(Right.AUDIT) or actor.may(Right.REVEAL))


def _may_take_bytes(actor: Actor) -> None:
    if not may_take_bytes(actor):
        who = f"{holders(Right.AUDIT)}, and for {holders(Right.REVEAL)}, who may read contents ({holders(Right.CONTENTS)})"
        message = f"{actor.name} may not take a journal away byte for byte: that is for {who}; the readable lines have credentials masked"
        raise Refused(message, code="forbidden", field="actor")


def _checkpoint(actor: Actor, run_id: str, signer: Signer, folder: Path | None) -> Checkpoint:
    for _ in range(TRIES):
        made = checkpoint_make(workspace_id=actor.workspace_id, signer=signer, folder=folder, only=(run_id,))
        if made:
            return made[0]
    raise Refused("other checkpoints are being made at this moment; try again", code="unavailable")
