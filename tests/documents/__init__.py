"""Tests that run the commands of the documents."""
