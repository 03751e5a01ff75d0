"""Tables keep members, invitations, sign-ins and API tokens."""
