"""People sign in by password, passkey or code, and each sign-in is a row."""
