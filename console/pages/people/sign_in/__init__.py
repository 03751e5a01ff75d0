"""Members sign in by password, link, passkey or provider."""
