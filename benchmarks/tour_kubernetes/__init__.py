"""The tour on two real Kubernetes nodes of this machine: a chart, a hub, real pods.

Read `site` first, then `acts`.
"""
