"""All nouns of the API share these shapes and parameters."""
