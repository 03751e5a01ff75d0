"""Where a process's time goes: its threads are looked at a few hundred times a second, and the processor time that each had since the last look is
put down to the function it is in.

``sys._current_frames`` is taken by a thread of the process itself, so what is seen is where a thread could be interrupted; a thread that waits
has no processor time and is put down to nothing. Costs the process about one percent at the default rate.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
EVERY_S = 0.003
PLACES = 25


@dataclass(slots=True)
class Profile:
    """Processor seconds."""

    seconds: float = 0.0
    """Of the clock on the wall."""
    threads: Counter[str] = field(default_factory=Counter)
    """By the thread's name, a pool's threads together."""
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By thread and the innermost function of this repository that it was in: ``fabric/core/engine.py:step``, with what that called out to."""
    within: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By thread and every function of this repository that it was in, whatever it called: a function's share with all that is below it."""

    def told(self, units: int) -> dict[str, object]:
        """Milliseconds of processor time a unit of work, and the share of one processor that was used."""
        each = 1_000 / units

        def most(found: Counter[tuple[str, str]]) -> dict[str, float]:
            return {f"{thread}: {place}": round(spent * each, 3) for (thread, place), spent in found.most_common(PLACES)}

        return {
            "processor": round(sum(self.threads.values()) / self.seconds, 2),
            "threads_ms": {name: round(spent * each, 3) for name, spent in self.threads.most_common()},
            "places_ms": most(self.places),
            "within_ms": most(self.within),
        }


@contextmanager
def profiled(every_s: float = EVERY_S) -> Iterator[Profile]:
    """Samples every thread but the sampler while the block runs."""
    found, over = Profile(), threading.Event()
    sampler = threading.Thread(target=_sample, args=(found, over, every_s), name="bench-sampler", daemon=True)
    begun = time.perf_counter()
    sampler.start()
    try:
        yield found
    finally:
        over.set()
        sampler.join()
        found.seconds = time.perf_counter() - begun


def _sample(found: Profile, over: threading.Event, every_s: float) -> None:
    before: dict[int, float] = {}
    while not over.wait(every_s):
        frames = sys._current_frames()  # noqa: SLF001 - The documented way to see what other threads do.
        for thread in threading.enumerate():
            ident = thread.ident
            if ident is None or ident not in frames or thread is threading.current_thread():
                continue
            try:
                spent = time.clock_gettime(time.pthread_getcpuclockid(ident))
            except OSError:  # It ended just now.
                continue
            had = spent - before.get(ident, spent)
            before[ident] = spent
            if had > 0:
                _put_down(found, thread.name, frames[ident], had)
        del frames


def _put_down(found: Profile, name: str, frame: FrameType | None, had: float) -> None:
    pool = name.rstrip("0123456789").rstrip("_-") or name
    found.threads[pool] += had
    innermost, seen = True, set()
    while frame is not None:
        place = _place(frame)
        if place is not None and place not in seen:
            seen.add(place)
            found.within[pool, place] += had
            if innermost:
                found.places[pool, place] += had
                innermost = False
        frame = frame.f_back
    if innermost:
        found.places[pool, "elsewhere"] += had


def _place(frame: FrameType) -> str | None:
    file = frame.f_code.co_filename
    if not file.startswith(str(ROOT)) or "site-packages" in file:
        return None
    return f"{file[len(str(ROOT)) + 1 :]}:{frame.f_code.co_qualname}"
