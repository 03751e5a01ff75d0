"""What an operator does at the command line. The commands call the same services and selectors as the web pages."""
