"""An author tries one check of a fabric on a sample."""
