"""Quotas of teams: the table that admins see, and the edits that they send back. Read `table` first."""
