"""The timeline draws the stages, steps and waits of a run on one axis of time."""
