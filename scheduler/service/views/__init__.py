"""From the core's values to the wire, and what each caller does not get to see."""
