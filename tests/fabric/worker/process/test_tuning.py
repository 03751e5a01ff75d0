"""How the interpreter is set for hosting runs, in a process of its own: it is set for good."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fabric.worker.process.tuning import COLLECT_AFTER, SWITCH_S

PROGRAM = """
import gc, json, sys, weakref
from fabric.worker.process.tuning import tune_process

class Held:
    pass

tune_process()
frozen = gc.get_freeze_count()
opened = Held()
opened.itself = opened
kept = weakref.ref(opened)
tune_process()
del opened
gc.collect()
print(json.dumps([gc.get_threshold(), sys.getswitchinterval(), frozen, kept() is None]))
"""


def test_a_process_that_hosts_runs_is_tuned_once_and_collects_what_it_opens_later():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    threshold, switch_s, frozen, collected = json.loads(done.stdout)
    assert tuple(threshold) == COLLECT_AFTER
    assert switch_s == pytest.approx(SWITCH_S)
    assert frozen > 1000
    assert collected
