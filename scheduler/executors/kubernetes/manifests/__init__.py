"""From a launch to the objects that run it, and the requests that make, change and remove them.

What has been seen of them since is not looked at here.
Read `manifests` first, then `requests`.
"""
