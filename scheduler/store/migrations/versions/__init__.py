"""One module per change of the tables, numbered in their order."""
