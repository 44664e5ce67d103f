"""What the schedule starts each minute."""

print("trained again", flush=True)
