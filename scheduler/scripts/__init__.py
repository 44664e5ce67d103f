"""What a script or notebook tells of itself, read without running it. Pure."""
