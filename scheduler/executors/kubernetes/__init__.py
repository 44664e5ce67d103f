"""Attempts as Indexed Jobs of a Kubernetes cluster: we decide who gets which GPU, Kubernetes runs it."""
