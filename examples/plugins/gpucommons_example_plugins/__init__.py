"""One plugin of each kind, as small as each can be."""
