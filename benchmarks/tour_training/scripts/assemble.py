"""Puts both models together."""

from pathlib import Path

print("assembled", sum(int(Path(name).read_text()) for name in ("cnn.txt", "vit.txt")), flush=True)
