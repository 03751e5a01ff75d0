"""Every member reads and searches the documents."""
