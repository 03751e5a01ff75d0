"""Checks decisions, reasons and reviews by deriving them anew from earlier facts."""
