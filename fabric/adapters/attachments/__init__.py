"""Files that people attach, read into text with marks for pages, sheets and rows: each kind in a module, foreign formats in a child process."""
