"""What an admin runs from the second day on: backups, parking, and what is to be sent or kept elsewhere.

Read `commands` first. These ask the database or the API; nothing is decided here.
"""
