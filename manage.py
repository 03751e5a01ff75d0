#!/usr/bin/env python3
"""The one entry point: `up`, `test`, and every Django command of Fabric Flow.

This file and console/launch need nothing but Python: they make the environment that everything else runs in.
"""

import sys

from console.launch.processes.interpreter import refusal

if __name__ == "__main__":
    sentence = refusal(sys.version_info[:2])
    if sentence:
        sys.exit(sentence)
    from console.launch.main import main

    sys.exit(main(sys.argv))
