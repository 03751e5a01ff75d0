"""Tables keep runs, their journal, their inbox and the workers that drive them."""
