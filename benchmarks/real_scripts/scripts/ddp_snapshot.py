"""As PyTorch's tutorial on fault-tolerant training: DDP, `snapshot.pt`, started by torchrun."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SNAPSHOT, EPOCHS = "snapshot.pt", 40


class Trainer:
    def __init__(self, model, data, optimizer):
        self.rank, self.epochs_run = int(os.environ["RANK"]), 0
        self.data, self.optimizer = data, optimizer
        if os.path.exists(SNAPSHOT):
            snapshot = torch.load(SNAPSHOT)
            model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"] + 1
            print(f"Resuming training from snapshot at Epoch {self.epochs_run}", flush=True)
        self.model = DDP(model)

    def run_epoch(self, epoch):
        self.data.sampler.set_epoch(epoch)
        for source, target in self.data:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(source), target)
            loss.backward()
            self.optimizer.step()
            time.sleep(0.03)
        if self.rank == 0:
            print(f"[GPU0] Epoch {epoch} | Batchsize: 32 | loss: {loss.item():.4f}", flush=True)

    def train(self):
        for epoch in range(self.epochs_run, EPOCHS):
            self.run_epoch(epoch)
            if self.rank == 0:
                state = {"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch}
                torch.save(state, SNAPSHOT + ".part")
                os.replace(SNAPSHOT + ".part", SNAPSHOT)


torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group(backend="gloo")
model = torch.nn.Linear(20, 1)
dataset = TensorDataset(torch.rand(256, 20), torch.rand(256, 1))
loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=1e-3)).train()
dist.destroy_process_group()
