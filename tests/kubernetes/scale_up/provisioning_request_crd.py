"""The definition of ProvisioningRequest as far as we use it, for an API server without a cluster autoscaler.

Written from the schema that kubernetes/autoscaler publishes (cluster-autoscaler/apis/config/crd, Apache-2.0):
its names, required fields, bounds and the rule that a spec does not change.
"""

from __future__ import annotations

from typing import Any

_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_FIXED = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
_POD_SET = {
    "type": "object",
    "required": ["count", "podTemplateRef"],
    "properties": {
        "count": {"type": "integer", "format": "int32", "minimum": 1},
        "podTemplateRef": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 253, "pattern": _NAME}},
        },
    },
}
_CONDITION = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "minLength": 1},
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
_SPEC = {
    "type": "object",
    "required": ["podSets", "provisioningClassName"],
    "properties": {
        "provisioningClassName": {
            "type": "string",
            "maxLength": 253,
            "pattern": _NAME,
            "x-kubernetes-validations": _FIXED,
        },
        "podSets": {
            "type": "array",
            "minItems": 1,
            "maxItems": 32,
            "items": _POD_SET,
            "x-kubernetes-validations": _FIXED,
        },
    },
}
_STATUS = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    },
}

PLURAL, GROUP = "provisioningrequests", "autoscaling.x-k8s.io"
PROVISIONING_REQUEST: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{PLURAL}.{GROUP}",
        # Names of *.k8s.io are kept for those that have been looked at, or say that they are not.
        "annotations": {"api-approved.kubernetes.io": "unapproved, a part of the published one"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": "ProvisioningRequest",
            "listKind": "ProvisioningRequestList",
            "plural": PLURAL,
            "singular": "provisioningrequest",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": _SPEC, "status": _STATUS},
                    }
                },
            }
        ],
    },
}
