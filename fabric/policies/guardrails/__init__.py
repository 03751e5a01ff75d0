"""Shipped rules find patterns of linear time in text."""
