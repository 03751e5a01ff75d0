"""Members manage accounts, roles, tokens and invitations."""
