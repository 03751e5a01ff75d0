"""Acts on all runs that match a query from the command line, and shows the progress of the job."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.words import count
from fabric.management.base import DETACHED, OK, OTHER_END, FabricCommand
from fabric.management.machine_zone import choose_zone
from fabric.models import JobAction
from fabric.program.name import program
from fabric.selectors.runs.query.choices import RunChoice, count_choice
from fabric.selectors.runs.query.jobs import RunJobView, job_get, job_refusals
from fabric.services.errors import Refused
from fabric.services.runs.jobs.actions import ACTIONS, RunPorts
from fabric.services.runs.jobs.requests import job_begin
from fabric.services.runs.jobs.steps import job_step

LOOK_S = 0.5
"""Seconds between two looks at a job that workers carry out."""


def act_on_matching(command: FabricCommand, actor: Actor, options: dict[str, Any]) -> int:
    """Begin a job for the runs that match ``--query``, and follow it to its end. Without ``--yes``, say how many match.

    Returns 0 if no run was refused, 1 otherwise. Raises Refused.
    """
    action, choice = JobAction(options["action"]), RunChoice(options["query"], zone=choose_zone(options["zone"]))
    if not options["yes"]:
        raise Refused(_describe(actor, action, choice), code="invalid", field="yes")
    job = job_begin(actor=actor, action=action, choice=choice, reason=options.get("reason") or "").job
    command.tell(f"job {job.id} acts on {count(job.total, 'run')} (Ctrl-C detaches)")
    try:
        job = _follow(command, actor, job, silent=options["json"])
    except KeyboardInterrupt:
        command.tell("detached: the job continues when a worker runs")
        return DETACHED
    return _report(command, actor, job, as_json=options["json"])


def _describe(actor: Actor, action: JobAction, choice: RunChoice) -> str:
    found = count_choice(actor, choice, ACTIONS[action].states, now=time.time_ns() // 1_000)
    if found is None:
        return f"{action} would act on all runs that match; add --yes to do it"
    runs = count(found.count, "run")
    return f"{action} would act on {runs}, of which {found.fitting:,} can take it now; add --yes to do it"


def _follow(command: FabricCommand, actor: Actor, job: RunJobView, *, silent: bool) -> RunJobView:
    """Show the progress until the job ends. Carry it out here while no worker does."""
    ports = RunPorts(store=wiring.store(), nudge=wiring.nudge(), now=wiring.clock().now)
    told = -1
    while not job.ended:
        if wiring.engine_running():
            time.sleep(LOOK_S)
        else:
            job_step(ports, job.id)
        job = job_get(actor, job.id)
        tried = job.done + job.refused
        if tried != told and not silent:
            command.tell(f"{tried:,} of {job.total:,}: {job.done:,} done, {job.refused:,} refused")
        told = tried
    return job


def _report(command: FabricCommand, actor: Actor, job: RunJobView, *, as_json: bool) -> int:
    refusals, more = job_refusals(actor, job.id)
    if as_json:
        refused = [{"run_id": one.run_id, "message": one.says} for one in refusals]
        command.put(asdict(job) | {"left": job.left, "refusals": refused, "more_refusals": bool(more)})
    else:
        for one in refusals:
            command.stdout.write(one.says)
        if more:
            command.tell(f"there are more refusals: the page of job {job.id} lists them")
    if job.left:
        command.tell(f"{job.stopped_by} stopped the job; {count(job.left, 'run')} not tried")
    if not wiring.engine_running():
        command.tell(f"the runs take it when an engine runs: {program()} up")
    return OK if job.done == job.total else OTHER_END
