"""The finding's `cel-dos`: 538 bytes of six loops over forty things each. It is not published; and a run that has it all the same holds up no worker."""

from __future__ import annotations

import threading
import time
from subprocess import CalledProcessError

import pytest

from tests.console.launch.started_processes import PATIENCE_S
from tests.e2e.installation import installed
from tests.fabric.services.world import SMALL
from tests.hostile.evaluators import CEL

EXPRESSION = CEL["six loops within each other"][0]
CEL_DOS = f"""{SMALL.replace("name: small", "name: cel-dos")}
gates:
  invariants:
    - stage: finalize
      name: for-ever
      message: It does not hold.
      expression: "{EXPRESSION}"
"""
PUBLISHED_BEFORE = """
import sys
from fabric.policies.expressions import evaluation as expression_costs
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.actors import owner_actor
expression_costs.too_costly = lambda expression: ""
fabric_publish(actor=owner_actor(), source={source!r})
"""
"""As a version without the bound on costs published it: what is bounded then is each evaluation."""


STARTED = """
from fabric.composition import engine as wiring
from fabric.services.runs.start import run_start
from fabric.services.actors import owner_actor
ports = {"store": wiring.store(), "nudge": wiring.nudge(), "now": wiring.clock().now}
print(run_start(**ports, actor=owner_actor(), fabric="cel-dos", text="What do the notes say?", documents=(), tier=None).run_id)
"""


@pytest.mark.slow
def test_the_expression_that_froze_workers_is_refused_and_freezes_none(tmp_path):
    assert len(EXPRESSION) > 500
    with installed(tmp_path / "data") as here:
        with pytest.raises(CalledProcessError) as refused:
            here.publish(CEL_DOS)
        assert "goes through lists within each other 6 deep; at most 2" in refused.value.stderr
        here.manage("django", "shell", "-c", PUBLISHED_BEFORE.format(source=CEL_DOS))
        here.publish(SMALL)
        worker = here.worker()
        attacker = here.manage("django", "shell", "-c", STARTED).split()[-1]
        victim = here.manage("run", "start", "small", "--input", "What do the notes say?", "--json")
        assert '"completed"' in victim
        until = time.monotonic() + PATIENCE_S
        while here.stored("SELECT 1 FROM fabric_run WHERE id = ? AND state IN ('queued', 'running')", attacker):
            assert time.monotonic() < until
            threading.Event().wait(0.5)
        assert "longer than 2 seconds" in here.manage("run", "explain", attacker)
        assert here.worker() == worker
