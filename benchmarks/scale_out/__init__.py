"""The loop at the size that no machine of ours has: nodes and jobs in virtual time, cycles on the real clock."""
