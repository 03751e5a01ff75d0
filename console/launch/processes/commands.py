"""Starts commands under a keeper (console.launch.processes.keeper): they end when this process ends, in any way."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from console.launch.processes import keeper as child

_KEEPER = [sys.executable, "-I", str(Path(child.__file__).absolute())]
_STOP_GRACE_S = 10.0


class KeptCommand:
    """A command under its keeper, in a session of its own, so that a terminal's Ctrl-C does not reach it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        kept_fds: Sequence[int] = (),
        shared_fds: Sequence[int] = (),
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
    ) -> None:
        """Start it. The command inherits `kept_fds`; the keeper alone keeps `shared_fds` open."""
        read, self._pipe = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*_KEEPER, str(read), *map(str, kept_fds), "--", *command],
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(read, *kept_fds, *shared_fds),
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(read)

    def ended(self) -> int | None:
        """Return the exit code once the command has ended (128 + n for signal n), else None."""
        return self.process.poll()

    def stop(self) -> None:
        """Ask the command to end: one SIGTERM, even if called again."""
        self.process.terminate()

    def kill(self) -> None:
        """End the command and all its descendants at once."""
        try:
            os.write(self._pipe, child.KILL)
        except BrokenPipeError:
            pass  # It has ended meanwhile.

    def close(self) -> None:
        """Close the pipe, which ends the command if it still runs."""
        os.close(self._pipe)


def run(
    command: Sequence[str],
    *,
    shared_fds: Sequence[int] = (),
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    capture: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output. If this process is interrupted, the command is ended first."""
    pipe = subprocess.PIPE if capture else None
    kept = KeptCommand(command, shared_fds=shared_fds, cwd=cwd, environ=environ, stdout=pipe, stderr=pipe)
    try:
        out, err = kept.process.communicate()
        return subprocess.CompletedProcess(list(command), kept.process.returncode, _text(out), _text(err))
    except BaseException:
        kept.stop()
        try:
            kept.process.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            kept.kill()
            kept.process.wait()
        raise
    finally:
        kept.close()


def _text(said: bytes | None) -> str:
    return (said or b"").decode(errors="replace")
