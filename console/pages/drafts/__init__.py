"""Authors begin, edit, merge and publish the draft of a fabric."""
