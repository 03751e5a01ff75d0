"""The undisturbed run of a fabric, and the run after a disturbance, in one world."""
