"""The tour of a real release: Zero to JupyterHub's own chart, ours and our images, on two real nodes.

Read `site` first, then `acts`. Unlike `tour_kubernetes`, all that serves runs as the charts' own pods.
"""
