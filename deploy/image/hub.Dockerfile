# Adds the spawner to the hub's image. Build it in the repository's root:
#   docker build -f deploy/image/hub.Dockerfile -t REGISTRY/hub:0.1.0 .
ARG BASE=quay.io/jupyterhub/k8s-hub:4.3.2
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM ${BASE}
USER root
COPY --from=build /wheels /tmp/wheels
# What the base has stays as it is: a release of Zero to JupyterHub is tried with its own pins.
RUN pip list --format=freeze > /tmp/base.txt \
    && pip install --no-cache-dir --constraint /tmp/base.txt "$(ls /tmp/wheels/*.whl)[hub]" \
    && rm -rf /tmp/wheels /tmp/base.txt
USER 1000
