"""Editors beside Lab, through the same notebook server: VS Code in the browser, and those that come by ssh.

Here lives what they need of us besides: their work counts as activity, and what comes by ssh gets the
notebook's slice. Served they are by jupyter-server-proxy; nothing here is done where it is not installed.
Read :mod:`.traffic` first.
"""
