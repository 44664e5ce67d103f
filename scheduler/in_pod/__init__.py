"""What runs beside a job's command in a pod, copied into whatever image the job has.

Only the standard library is imported, and nothing of ours but `curves.event_watch`; where processes
are to be saved also what does that, which `file_storage.prepare` brings. Read `worker` first, then `command`.
"""
