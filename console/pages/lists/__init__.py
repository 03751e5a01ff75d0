"""Every list reads its address by one grammar and shows a period, filters, pages and files."""
