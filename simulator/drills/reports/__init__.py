"""Stored drills become reports, JUnit XML, and tests of pytest."""
