"""Reviews: opening, showing, answering and recording them."""
