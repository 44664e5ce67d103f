"""Where callers come in: how many may, how long they may take, and who makes room for whom.

The API, the pages, the agent and the culler's metrics keep the same bounds, so they stand once.
"""
