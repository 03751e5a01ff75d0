"""One decision in the making: its facts, its commands and its guards."""
