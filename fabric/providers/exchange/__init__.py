"""One request goes to a model's endpoint, and its answer is settled and priced."""
