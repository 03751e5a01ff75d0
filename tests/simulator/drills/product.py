"""Every cell of every variant of every sample: ``python -m tests.simulator.drills.product``. Minutes, so the suite has a part of it (``test_promises``).

Prints what is not as promised, and how many cells were drilled; exit code 1 where a verdict is another than pass.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter


def main() -> int:
    """Drills them all."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from simulator.drills.fabrics import samples
    from simulator.scenarios.play.cells import matrix
    from tests.simulator.drills.variants import VARIANTS

    began, found = time.perf_counter(), Counter[str]()
    for name, varied in VARIANTS.items():
        for spec in samples():
            for cell in matrix(varied(spec)):
                found[cell.verdict] += 1
                if cell.verdict != "pass":
                    sys.stdout.write(f"{spec.name}, {name}: {cell}\n")
    took = time.perf_counter() - began
    sys.stdout.write(f"{dict(found)} of {len(VARIANTS)} variants of {len(samples())} samples, {took:.0f} s\n")
    return int(set(found) != {"pass"})


if __name__ == "__main__":
    raise SystemExit(main())
