"""The server bounds each request: its size, its rate, its address and its headers."""
