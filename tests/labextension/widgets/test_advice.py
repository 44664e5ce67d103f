"""`advise(model, data)`: what is read of a model in the kernel, and what is sent of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from gpucommons.labextension import advise
from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import BadRequest

CONFIG = {
    "model_type": "gpt2",
    "n_layer": 12,
    "n_embd": 768,
    "n_head": 12,
    "vocab_size": 50_257,
    "n_positions": 1024,
}
Connect = Callable[[], SchedulerClient]


@dataclass
class Tensor:
    """As much of a tensor as is looked at."""

    shape: tuple[int, ...]
    dtype: str = "torch.int64"

    def __getitem__(self, rows: slice) -> Tensor:
        return Tensor((1, *self.shape[1:]), self.dtype)


class HuggingFaceModel:
    """A model that knows its configuration."""

    class config:  # noqa: N801 - as transformers calls it
        @staticmethod
        def to_dict() -> dict[str, Any]:
            return CONFIG


@dataclass
class Layer:
    output: Tensor
    weights: int

    def count_params(self) -> int:
        return self.weights


class Dense(Layer):
    """A layer of Keras."""


class KerasModel:
    layers = (Dense(Tensor((None, 128)), 784 * 128), Dense(Tensor((None, 10)), 1280))  # type: ignore[arg-type] # the batch is open

    def count_params(self) -> int:
        return 0


@pytest.fixture
def sent() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def connect(sent: list[dict[str, Any]]) -> Connect:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/advise"
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"declined": "No <b>plan</b>.", "now_ms": 0})

    return lambda: SchedulerClient(
        "http://scheduler", token="t", transport=httpx.MockTransport(answer)
    )


def test_a_hugging_face_model_and_its_loader_say_all_that_is_asked(
    connect: Connect, sent: list[dict[str, Any]]
) -> None:
    loader = [{"input_ids": Tensor((8, 1024)), "labels": Tensor((8, 1024))}] * 50

    found = advise(HuggingFaceModel(), loader, epochs=3, connect_to=connect, objective="cheapest")

    (asked,) = sent
    assert asked["network"]["kind"] == "transformer"
    assert (asked["network"]["layers"], asked["network"]["hidden"]) == (12, 768)
    assert (asked["batch"], asked["sequence"], asked["steps"]) == (8, 1024, 150)
    assert (asked["objective"], asked["framework"]) == ("cheapest", "torch")
    assert repr(found) == "No <b>plan</b>."
    assert found._repr_html_() == "<pre>No &lt;b&gt;plan&lt;/b&gt;.</pre>"


def test_a_batch_of_an_option_counts_and_steps_follow(
    connect: Connect, sent: list[dict[str, Any]]
) -> None:
    loader = [Tensor((8, 1024))] * 50
    advise(HuggingFaceModel(), loader, batch=64, connect_to=connect)
    assert (sent[0]["batch"], sent[0]["steps"]) == (64, 7)


def test_tokens_are_counted_behind_labels_and_asked_for_where_nothing_holds_them(
    connect: Connect, sent: list[dict[str, Any]]
) -> None:
    collated = [{"labels": Tensor((8,)), "input_ids": Tensor((8, 1024))}] * 50
    advise(HuggingFaceModel(), collated, connect_to=connect)
    assert (sent[0]["batch"], sent[0]["sequence"]) == (8, 1024)

    with pytest.raises(BadRequest, match="how many tokens a sample has"):
        advise(HuggingFaceModel(), batch=64, steps=1000, connect_to=connect)
    advise(HuggingFaceModel(), batch=64, steps=1000, sequence=512, connect_to=connect)
    assert [one["sequence"] for one in sent] == [1024, 512]


def test_keras_is_read_from_its_layers(connect: Connect, sent: list[dict[str, Any]]) -> None:
    advise(KerasModel(), batch=128, steps=1000, connect_to=connect)
    assert sent[0]["framework"] == "keras"
    assert sent[0]["network"] == {
        "kind": "traced",
        "parameters": 784 * 128 + 1280,
        "forward_flops": 2.0 * (784 * 128 + 1280),
        "activation_bytes": 4.0 * 138,
        "largest_layer_parameters": 784 * 128,
        "modules": 2,
    }


def test_jobs_are_named_in_place_of_a_model(connect: Connect, sent: list[dict[str, Any]]) -> None:
    advise(like="try-it", batch=64, steps=1000, connect_to=connect)
    assert sent[0]["network"] == {"kind": "unknown", "like": ["try-it"]}
    assert (sent[0]["batch"], sent[0]["sequence"]) == (64, 1)
    for both in ({"model": HuggingFaceModel(), "like": ["try-it"]}, {}):
        with pytest.raises(BadRequest, match="either the model or jobs"):
            advise(**both, batch=64, steps=10, connect_to=connect)


def test_what_is_no_model_is_sent_as_unknown(connect: Connect, sent: list[dict[str, Any]]) -> None:
    advise(object(), batch=8, steps=10, connect_to=connect)
    assert sent[0]["network"]["kind"] == "unknown"
    assert "neither a module of torch nor a Keras model" in sent[0]["network"]["why"]


def test_data_that_does_not_come_is_not_waited_for(
    connect: Connect, sent: list[dict[str, Any]]
) -> None:
    class Failing:
        def __iter__(self) -> Any:
            raise RuntimeError("no such file")

        def __len__(self) -> int:
            return 5

    with pytest.raises(BadRequest, match="how many samples"):
        advise(HuggingFaceModel(), Failing(), connect_to=connect)
    with pytest.raises(BadRequest, match="how many optimizer steps"):
        advise(HuggingFaceModel(), Failing(), batch=8, connect_to=connect)
    assert sent == []
