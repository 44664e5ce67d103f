"""Commands about trainings that are not submitted yet."""
