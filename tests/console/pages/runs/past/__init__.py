"""Tests of a run as of an event."""
