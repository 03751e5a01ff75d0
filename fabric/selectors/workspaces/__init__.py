"""Reads give a workspace's policy and its versions."""
