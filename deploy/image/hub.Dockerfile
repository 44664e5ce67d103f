# Written from contents.toml by `python -m deploy.release dockerfiles`: change it there.
# In the repository's root, after `make dist` (or `make setup dist` in a new checkout):
#   docker build -f deploy/image/hub.Dockerfile -t REGISTRY/hub:0.1.0 .
# The wheel holds the built panel and the library that keeps programs to their slice, for any
# glibc of the last ten years: no image needs Node or a compiler.
ARG BASE=quay.io/jupyterhub/k8s-hub:4.4.0
FROM ${BASE}
USER root
COPY dist/*.whl /tmp/gpucommons/
# What the base has stays as it is: a release of it is tried with its own pins.
RUN pip list --format=freeze > /tmp/base.txt \
    && pip install --no-cache-dir --constraint /tmp/base.txt "$(ls /tmp/gpucommons/*.whl)[hub]" \
    && rm -rf /tmp/gpucommons /tmp/base.txt
USER 1000
