"""Speaking rules of conversations, and the state that follows from the turns."""
