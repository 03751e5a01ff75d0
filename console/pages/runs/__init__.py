"""Members follow one run and control it."""
