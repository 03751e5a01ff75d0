"""The host claims runs, carries out the driver's effects and gives runs back."""
