# Adds the panel and the extension to an image of notebooks. In the repository's root, after `make dist` (or `make setup dist` in a new checkout):
#   docker build -f deploy/image/notebook.Dockerfile -t REGISTRY/notebook:0.1.0 .
ARG BASE=quay.io/jupyter/pytorch-notebook:cuda12-python-3.13
FROM ${BASE}
USER root
COPY dist/*.whl /tmp/wheels/
# What the base has stays as it is.
RUN pip list --format=freeze > /tmp/base.txt \
    && pip install --no-cache-dir --constraint /tmp/base.txt "$(ls /tmp/wheels/*.whl)[notebook]" \
    && rm -rf /tmp/wheels /tmp/base.txt
USER 1000
