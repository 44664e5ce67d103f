"""As nanoGPT's `train.py`: saves `ckpt.pt`, but goes on only when told `--init_from=resume`."""

import sys
import time

import torch

torch.set_num_threads(1)
resume = "--init_from=resume" in sys.argv
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
iteration = 0
if resume:
    checkpoint = torch.load("ckpt.pt")
    model.load_state_dict(checkpoint["model"])
    iteration = checkpoint["iter_num"] + 1
while iteration < 60:
    began = time.time()
    x = torch.rand(32, 64)
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.2)
    took_ms = (time.time() - began) * 1000
    print(f"iter {iteration}: loss {loss.item():.4f}, time {took_ms:.2f}ms, mfu 1.00%", flush=True)
    if iteration % 10 == 0:
        print(f"step {iteration}: train loss {loss:.4f}, val loss {loss:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "iter_num": iteration}, "ckpt.pt")
    iteration += 1
torch.save(model.state_dict(), "model.pt")
