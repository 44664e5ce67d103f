"""As PyTorch's example `mnist`: prints, saves its model at the end, and nothing before."""

import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(784, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
images, labels = torch.rand(640, 784), torch.randint(0, 10, (640,))
for epoch in range(1, 11):
    for index in range(10):
        part = slice(index * 64, index * 64 + 64)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[part]), labels[part])
        loss.backward()
        optimizer.step()
        time.sleep(0.08)
        done = 100.0 * index / 10
        print(
            f"Train Epoch: {epoch} [{index * 64}/640 ({done:.0f}%)]\tLoss: {loss.item():.6f}",
            flush=True,
        )
    print(f"\nTest set: Average loss: {loss.item():.4f}, Accuracy: 64/640 (10%)\n", flush=True)
torch.save(model.state_dict(), "mnist_cnn.pt")
