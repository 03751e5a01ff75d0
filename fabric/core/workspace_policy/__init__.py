"""An owner's rules for all fabrics of a workspace, and their refusals."""
