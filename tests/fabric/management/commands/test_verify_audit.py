"""`verify_audit`: a sentence for each thing that is wrong, and exit code 1."""

from fabric.composition import engine as wiring
from fabric.models import Event
from fabric.services.audit.checkpoints import checkpoints_make
from tests.fabric.management.console import command
from tests.fabric.services.world import ran
from tests.servers.unguarded import unguarded


def test_nothing_is_wrong(actor, small):
    run = ran(actor, small)
    checkpoints_make(signer=wiring.signer())
    done = command("verify_audit")
    assert done.code == 0
    assert done.out == (
        f"Looked at 1 runs with {run.last_seq} events, 0 audit lines, 1 checkpoints; 4 audit lines wait to be sealed: nothing is wrong.\n"
    )
    assert command("verify_audit", "--json").last == {
        "runs": 1, "events": run.last_seq, "lines": 0, "unsealed": 4, "checkpoints": 1, "erased": 0, "faults": 0,
        "findings": [],
    }  # fmt: skip


def test_what_is_wrong_is_named(actor, small):
    run, other = ran(actor, small), ran(actor, small)
    with unguarded():
        row = Event.objects.get(run_id=run.id, seq=4)
        row.delete()
    done = command("verify_audit")
    assert done.code == 1
    assert (
        done.out.splitlines()[0]
        == f"gap: run {run.id}: events 4 to {4 + row.more} are missing: {5 + row.more} follows 3"
    )
    assert done.out.splitlines()[-1].endswith("1 things are wrong.")
    (finding,) = command("verify_audit", "--json").last["findings"]
    assert (finding["fault"], finding["run_id"], finding["seq"]) == ("gap", run.id, 4)
    assert command("verify_audit", "--run", run.id).code == 1
    assert command("verify_audit", "--run", other.id).code == 0


def test_a_key_that_was_in_use_before(actor, small, settings):
    ran(actor, small)
    old = wiring.signer().public
    checkpoints_make(signer=wiring.signer())
    settings.FABRIC_AUDIT_KEY = "17" * 32
    done = command("verify_audit")
    assert done.code == 1
    assert (
        f"untrusted_key: checkpoint 1 of workspace {actor.workspace_id} is signed by key {old}, which is not this"
        in done.out
    )
    assert command("verify_audit", "--key", old.upper()).code == 0


def test_bad_input(actor):
    missing = command("verify_audit", "--run", "nothing")
    assert (missing.code, missing.err) == (
        2,
        "there is no run 'nothing', and there was none; look at the list of runs\n",
    )
    assert command("verify_audit", "--key", "short").err == "'short' is no public key; give its 64 hexadecimal digits\n"


def test_a_key_that_cannot_be_had_is_a_sentence(actor, settings, tmp_path):
    settings.FABRIC_DATA = tmp_path
    (tmp_path / "audit.key").write_text("damaged")
    done = command("verify_audit")
    assert done.code == 2
    assert done.err.startswith(f"the audit key {tmp_path}/audit.key is damaged")
