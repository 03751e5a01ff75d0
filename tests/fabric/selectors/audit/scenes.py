"""A small installation with everything that verifying looks at: runs of several kinds, a sealed stream, signed checkpoints."""

from dataclasses import dataclass
from pathlib import Path

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.secrets.signing import Signer, read_signer, verify_signature
from fabric.selectors.audit.journal_verification import AuditFinding, VerifiedCounts, verify_journals
from fabric.selectors.audit.stream_verification import verify_checkpoints, verify_streams
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal, checkpoints_make
from tests.fabric.services.world import ran

SEED = "17" * 32


@dataclass
class Audited:
    """The tests verify this world."""

    actor: Actor
    signer: Signer
    folder: Path
    runs: list[str]

    def seal(self) -> None:
        """Seals and signs what there is."""
        audit_seal()
        checkpoints_make(signer=self.signer, folder=self.folder)

    def findings(
        self, run_id: str = "", *, folder: bool = True, trusted: frozenset[str] = frozenset()
    ) -> list[AuditFinding]:
        """Everything that is wrong."""
        counted = VerifiedCounts()
        found = list(verify_journals(counted, run_id))
        if not run_id:
            found += verify_streams(counted)
        found += verify_checkpoints(
            counted,
            verified=verify_signature,
            trusted=trusted or {self.signer.public},
            run_id=run_id,
            folder=self.folder if folder else None,
        )
        self.counted = counted
        return found


def audited(actor: Actor, fabrics: list[str], folder: Path) -> Audited:
    """Runs of those fabrics and an audit stream of some lines, all of it covered by two checkpoints."""
    runs = [ran(actor, fabric).id for fabric in fabrics]
    made = Audited(actor, read_signer(folder, SEED), folder, runs)
    made.seal()
    for number in range(5):
        audit_record(actor=actor, act=Act.RETENTION_SET, subject=f"{number}")
    made.runs.append(ran(actor, fabrics[0]).id)
    made.seal()
    return made
