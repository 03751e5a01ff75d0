"""A report lists verdicts as JSON lines, as JUnit XML, or as one page of HTML."""
