"""The program seals, opens, signs and masks secrets."""
