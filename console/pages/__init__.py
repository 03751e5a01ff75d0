"""The console shows one page for each noun."""
