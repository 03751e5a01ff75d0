"""A booking service: something outside that tools change, with a ledger that says what was really done. For samples, drills and chaos runs.

``python3 manage.py booking [--port 8421]`` serves it; ``desk.py`` says what it answers. State lives in the ledger alone: started again on the
same ledger it knows every booking.
"""

from simulator.booking.desk import BookingDesk, Faults
from simulator.booking.ledger import Entry, Ledger, entries

__all__ = ["BookingDesk", "Entry", "Faults", "Ledger", "entries"]
