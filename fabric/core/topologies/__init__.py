"""Topologies: one module each, of one shape.

``agents(work, stage)`` names the agent of each branch of a stage (none: the engine does it itself); ``concluded(work, stage)`` gives the stage's output
once its steps are over, a failure, or None while it is still open.
"""
