"""The API's document, for people as a page and for programs as it is, behind the hub's login.

The page is made here from the document that the API serves: it needs no script and nothing from
another site.
"""

from __future__ import annotations

from typing import Any

from pydantic import RootModel

from gpucommons.scheduler.client.calls import Call
from gpucommons.scheduler.pages.base import JsonHandler, PageHandler
from gpucommons.scheduler.pages.present.api_document import api_page


class OpenApi(RootModel[dict[str, Any]]):
    """The document, whatever version of the API wrote it."""


_DOCUMENT: Call[OpenApi] = Call(method="GET", path="/v1/openapi.json", answer=OpenApi)


class ApiDocs(PageHandler):
    """Every route, by group."""

    async def get(self) -> None:
        """Show it."""
        await self.whoami()
        document = await self.ask(_DOCUMENT)
        self.show("api_docs.html", active="docs", api=api_page(document.root))


class ApiDocument(JsonHandler):
    """The document itself, for tools that read OpenAPI."""

    async def get(self) -> None:
        """Hand it on."""
        self.answer((await self.ask(_DOCUMENT)).root)
