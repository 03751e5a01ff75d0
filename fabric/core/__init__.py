"""The decision core: pure functions and frozen values, standard library and pydantic only.

Read ``engine.py`` first, then ``run.py``. Nothing here reads a clock, draws a random number or does I/O:
time and draws come in through ``context.Context``.
"""
