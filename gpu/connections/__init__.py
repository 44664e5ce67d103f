"""Connections that servers of ours accept: how many, for how long, and which is closed for another.

The API, the pages, the agent and the culler's metrics keep the same bounds, so they stand once.
"""
