# Adds the panel and the extension to an image of notebooks. Build it in the repository's root:
#   docker build -f deploy/image/notebook.Dockerfile -t REGISTRY/notebook:0.1.0 .
ARG BASE=quay.io/jupyter/pytorch-notebook:cuda12-python-3.13
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM ${BASE}
COPY --from=build /wheels /tmp/wheels
# What the base has stays as it is.
RUN pip list --format=freeze > /tmp/base.txt \
    && pip install --no-cache-dir --constraint /tmp/base.txt "$(ls /tmp/wheels/*.whl)[notebook]" \
    && rm -rf /tmp/wheels /tmp/base.txt
