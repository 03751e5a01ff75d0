"""The files of deploy/: read, and held against the program. Nothing here needs a container, a cluster or a network."""
