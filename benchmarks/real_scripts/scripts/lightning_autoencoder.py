"""The autoencoder of Lightning's first steps, on random pictures; `ckpt_path="last"` goes on."""

import time

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn, utils


class LitAutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 784))

    def training_step(self, batch, batch_idx):
        time.sleep(0.02)
        loss = nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def on_train_epoch_end(self):
        loss = self.trainer.callback_metrics["train_loss"]
        print(f"Epoch {self.current_epoch}: train_loss={loss:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


torch.set_num_threads(1)
data = utils.data.TensorDataset(torch.rand(160, 784))
trainer = L.Trainer(
    accelerator="cpu",
    max_epochs=25,
    default_root_dir=".",
    enable_progress_bar=False,
    logger=False,
    callbacks=[ModelCheckpoint(dirpath="checkpoints", save_last=True)],
)
trainer.fit(LitAutoEncoder(), utils.data.DataLoader(data, batch_size=16), ckpt_path="last")
trainer.save_checkpoint("model.ckpt")
