"""Circuit breakers as pure rules: the policy of one, the table of its states, what opens it, and what it answers (semantics.md 4).

Where the rows of all workers are kept is ``adapters/guards.py``; which row of the decision table a trip takes is the signal's.
"""
