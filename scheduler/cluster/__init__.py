"""What a scheduler on Kubernetes has besides its executor: the nodes' agents, slices of pods, facts.

Nothing here asks the API server; the executor says what it saw.
Read `cluster_agents` first.
"""
