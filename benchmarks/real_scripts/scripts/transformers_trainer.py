"""Transformers' Trainer with `get_last_checkpoint`, as its example scripts use it; no download."""

import time
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.004)
        generator = torch.Generator().manual_seed(index)
        words = torch.randint(0, 100, (16,), generator=generator)
        return {"input_ids": words, "labels": torch.tensor(index % 2)}


torch.set_num_threads(1)
config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
)
arguments = TrainingArguments(
    output_dir="output_dir",
    max_steps=200,
    save_steps=20,
    logging_steps=5,
    per_device_train_batch_size=8,
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
)
last = get_last_checkpoint("output_dir") if Path("output_dir").is_dir() else None
print(f"last checkpoint: {last}", flush=True)
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Sentences())
trainer.train(resume_from_checkpoint=last)
print(f"global step {trainer.state.global_step}", flush=True)
trainer.save_model("model")
