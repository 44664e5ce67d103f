"""Kubernetes' own schemas, each file read once: every document asks for one of two megabytes."""

from functools import cache

from kubernetes_validate import utils

utils.schema_contents = cache(utils.schema_contents)
utils.all_versions = cache(utils.all_versions)

validate = utils.validate
