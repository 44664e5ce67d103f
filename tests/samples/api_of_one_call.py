"""The OpenAPI document of an API with one call, for the page that shows it."""

from __future__ import annotations

from typing import Any


def openapi() -> dict[str, Any]:
    """The document of an API with one call."""
    field = {"type": "string", "maxLength": 50, "description": "Such as digits."}
    refusal = {"description": "You may not do this."}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}}
    return {
        "paths": {
            "/v1/jobs/{ref}": {
                "post": {
                    "tags": ["jobs"],
                    "operationId": "submit",
                    "description": "Submit ``digits``.",
                    "security": [{"token": []}],
                    "parameters": [{"name": "ref", "in": "path", "required": True}],
                    "requestBody": {"content": content},
                    "responses": {
                        "201": {"description": "Successful Response", "content": content},
                        "403": refusal,
                    },
                }
            }
        },
        "components": {
            "schemas": {
                "Job": {"type": "object", "required": ["name"], "properties": {"name": field}}
            }
        },
    }
