import os
import subprocess
import sys

import pytest

from console.celery import app
from console.launch.paths import ROOT


def test_a_message_is_a_wake_up_and_nothing_more():
    conf = app.conf
    assert conf.task_acks_late is False
    assert conf.task_ignore_result is True
    assert conf.result_backend is None
    assert conf.accept_content == ["json"]
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_connection_retry_on_startup is True


@pytest.mark.parametrize("arguments", [["--pool", "prefork"], []])
def test_a_forking_pool_is_refused_with_a_sentence(arguments, tmp_path):
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "console", "worker", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings", "FABRIC_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "A worker cannot use the prefork pool: start it with `celery -A console worker --pool threads`."
    )
