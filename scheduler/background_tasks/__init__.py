"""What has to be done every few seconds beside deciding: readings, expiry of files, metrics.

Nothing here answers a request.
Read `housekeeping` first.
"""
