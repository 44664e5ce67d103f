"""What runs beside a job's command in a pod, copied into whatever image the job has.

Only the standard library is imported, and nothing of ours but `curves.event_watch`.
Read `worker` first, then `command`.
"""
