"""The console answers a failed request with an error page or a problem document."""
