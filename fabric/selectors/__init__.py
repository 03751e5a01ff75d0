"""Every read sees what its reader may see, a page at a time and masked."""
