"""Pages that look back, with what they draw: utilisation, and the report's bars and files.

Numbers come from the API; nothing is added up here but means of what it answered. Read `utilisation` first.
"""
