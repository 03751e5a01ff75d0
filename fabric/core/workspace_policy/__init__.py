"""What an owner says of every fabric of a workspace, whatever its author says: the policy, its rules, and a fabric under it."""
