# Adds the spawner to the hub's image. In the repository's root, after `make dist` (or `make setup dist` in a new checkout):
#   docker build -f deploy/image/hub.Dockerfile -t REGISTRY/hub:0.1.0 .
ARG BASE=quay.io/jupyterhub/k8s-hub:4.4.0
FROM ${BASE}
USER root
COPY dist/*.whl /tmp/wheels/
# What the base has stays as it is: a release of Zero to JupyterHub is tried with its own pins.
RUN pip list --format=freeze > /tmp/base.txt \
    && pip install --no-cache-dir --constraint /tmp/base.txt "$(ls /tmp/wheels/*.whl)[hub]" \
    && rm -rf /tmp/wheels /tmp/base.txt
USER 1000
