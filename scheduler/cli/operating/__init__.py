"""What an admin runs: teams, nodes, idle notebooks, configuration, backups, and what is to be sent or kept elsewhere.

Each module has the options of its commands, and what they do. These ask the database or the API; nothing is
decided here.
"""
