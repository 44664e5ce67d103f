"""What somebody writes to launch a script as it is: here, and with others, after their own documents.

``others.toml`` holds the shortest launch that each project's own pages show, with its place; `__main__` counts.
Nothing of the others is installed or run.
"""
