"""The files of deploy/: read, and compared with the program. Nothing here needs a container, a cluster or a network."""
