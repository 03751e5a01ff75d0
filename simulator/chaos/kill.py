"""kill -9: the provider appends to its ledger, answers, then kills its worker; what was journaled is never asked again and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

from simulator.chaos.harness import Judgement, Site, judge, site, until
from simulator.chaos.rows import facts_by_run, start_runs, states

PROVIDER = "simulator.chaos.providers.KillingProvider"
RUNS_AT_ONCE = 6
WAVE_S = 240.0
DYING_S = 30.0


def run(db: str, kills: int) -> Judgement:
    """Starts runs until ``kills`` workers have killed themselves, lets everything end, and judges.

    TimeoutError when it does not end; RuntimeError when a worker died that was not killed, or a journal does not read back as it was written.
    """
    with site(db, provider=PROVIDER, workers=1 if db == "sqlite" else 2) as made:
        for number in range(kills):
            (made.folder / f"kill-{number:04d}").touch()
        while any(made.folder.glob("kill-*")):
            start_runs(made, RUNS_AT_ONCE)
            until(lambda: _all_ended(made), made, WAVE_S)
        done = kills - len(list(made.folder.glob("kill-*")))
        until(
            lambda: made.deaths() >= done, made, DYING_S
        )  # The last kill may come after the last answer was journaled.
        if made.deaths() != done:
            raise RuntimeError(
                f"{done} workers were to be killed and {made.deaths()} died: {made.said('Error', 'ERROR')[-5:]}"
            )
        made.manage("replay_run", "--all", "--json")
        return judge(_ledger(made), facts_by_run(made), done)


def _all_ended(made: Site) -> bool:
    return all(state in ("completed", "failed", "aborted", "cancelled") for state in states(made).values())


def _ledger(made: Site) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.folder / "ledger.ndjson").read_text().splitlines()]
