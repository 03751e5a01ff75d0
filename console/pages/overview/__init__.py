"""The overview shows the present troubles of the workspace."""
