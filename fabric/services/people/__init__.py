"""Services add and remove members, invitations, identities and tokens."""
