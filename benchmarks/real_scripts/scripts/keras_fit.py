"""Keras' `fit` with `BackupAndRestore`, which goes on after an interruption by itself."""

import os
import time

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

model = keras.Sequential([keras.layers.Input((20,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse", metrics=["mae"])


class Slow(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.3)


x, y = np.random.rand(256, 20), np.random.rand(256, 1)
model.fit(
    x,
    y,
    epochs=30,
    batch_size=64,
    verbose=2,
    callbacks=[keras.callbacks.BackupAndRestore("backup"), Slow()],
)
model.save("model.keras")
