"""Each seed draws its own fabric, limits, requests, processes and faults."""
