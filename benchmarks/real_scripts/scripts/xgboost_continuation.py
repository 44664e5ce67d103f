"""XGBoost, a few rounds at a time: continues from the model that it saved last."""

import os
import time

import numpy as np
import xgboost as xgb

generator = np.random.default_rng(0)
x = generator.random((500, 10))
data = xgb.DMatrix(x, label=x.sum(axis=1))


class Slow(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        time.sleep(0.2)
        return False


booster = None
if os.path.exists("model.json"):
    booster = xgb.Booster(model_file="model.json")
done = booster.num_boosted_rounds() if booster else 0
parameters = {"objective": "reg:squarederror", "max_depth": 3, "nthread": 1}
while done < 60:
    booster = xgb.train(
        parameters, data, 5, evals=[(data, "train")], xgb_model=booster, callbacks=[Slow()]
    )
    done = booster.num_boosted_rounds()
    booster.save_model("part.json")
    os.replace("part.json", "model.json")
    print(f"rounds done: {done}", flush=True)
