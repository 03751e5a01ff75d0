"""What leads the process group of a command, and kills it when whoever started it is gone, however that went: ``python -I -S watcher.py``.

Its standard input is a pipe whose other end the starter alone holds, and never writes to: the kernel closes it with the starter, SIGKILL or not. What the
command has started since is in the group and dies with it. (PR_SET_PDEATHSIG reaches the command alone, not what an ``npx`` or a shell has started, and
goes off when a thread ends that the process outlives.) A process that has left the group is not found. Standard library only, and no module of ours.
"""

import os
import signal

PASSED_OVER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What the group may be sent while the command is given time to end: the watch goes on."""


def main() -> None:
    """Waits for the starter to go."""
    for number in PASSED_OVER:
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    if os.getpgrp() == os.getpid():  # In somebody else's group it would kill them.
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
