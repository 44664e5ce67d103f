"""As PyTorch's tutorials load data: workers of a DataLoader hand their batches over in shared memory."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCHES, SIZE = 4, 15, 16


class Numbers(Dataset):
    """Each example takes a moment, as a picture that is decoded."""

    def __len__(self):
        return BATCHES * SIZE

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((100,), float(index % 7)), float(index % 3)


if __name__ == "__main__":
    torch.manual_seed(3)
    torch.set_num_threads(1)
    model = torch.nn.Linear(100, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    step = 0
    for _ in range(EPOCHS):
        for x, y in DataLoader(Numbers(), batch_size=SIZE, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x)[:, 0], y.float())
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: loss {loss.item():.6f}", flush=True)
    torch.save(model.state_dict(), "model.pt")
    print(f"final {loss.item():.6f}", flush=True)
