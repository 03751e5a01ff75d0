"""flow5 as other engines run it, each in an environment and a process of its own, beside ours in interleaved rounds."""
