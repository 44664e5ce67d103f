"""How many bytes of files a job may bring and leave, wherever it runs, where a site sets nothing else."""

#: What a job's files may unpack to.
MAX_UNPACKED_BYTES = 4 << 30
#: What is copied, sent or fetched of what a job wrote.
MAX_RESULTS_BYTES = 16 << 30
