"""The same jobs, GPUs and quotas under a static partition, a shared queue, borrowing and the core."""
