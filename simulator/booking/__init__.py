"""A booking service outside the engine, for tools that change something, with a ledger of its real bookings.

It serves samples, drills and chaos runs. ``python3 manage.py dev booking [--port 8421]`` starts it; ``desk.py`` lists
its answers. Its only state is the ledger: started again on it, the service knows every booking.
"""

from simulator.booking.desk import BookingDesk, Entry, Faults, Ledger, entries

__all__ = ["BookingDesk", "Entry", "Faults", "Ledger", "entries"]
