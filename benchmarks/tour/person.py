"""A person at the hub: logs in, starts servers, reads pages, takes tickets."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx

from benchmarks.tour.timeline import PATIENCE_S, TourFailedError, check, wait_for


class Person:
    """One browser session, without the browser."""

    def __init__(self, url: str, name: str, password: str) -> None:
        self.url, self.name = url, name
        self.http = httpx.Client(base_url=url, follow_redirects=True, timeout=40)
        self.http.get("/hub/login")
        answer = self.http.post(
            "/hub/login",
            data={"username": name, "password": password, "_xsrf": self._xsrf()},
            headers={"Referer": f"{url}/hub/login"},
        )
        if "login" in answer.url.path:
            message = f"{name} could not log in: {answer.status_code}"
            raise TourFailedError(message)
        self.token = self.hub("POST", f"users/{name}/tokens", json={"note": "tour"})["token"]

    def _xsrf(self, path: str = "/hub/") -> str:
        for cookie in self.http.cookies.jar:
            if cookie.name == "_xsrf" and cookie.path.startswith(path):
                return str(cookie.value)
        return next((str(c.value) for c in self.http.cookies.jar if c.name == "_xsrf"), "")

    def hub(self, method: str, path: str, **options: Any) -> Any:
        """A call of the hub's own API."""
        answer = self.http.request(
            method,
            f"/hub/api/{path}",
            headers={"X-XSRFToken": self._xsrf(), "Referer": f"{self.url}/hub/home"},
            **options,
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    # --- notebook servers --------------------------------------------------------------------

    def spawn_page(self) -> str:
        """The options form as HTML, also while a server runs."""
        return self.http.get(f"/hub/spawn/{self.name}").text

    def start_server(self, **options: Any) -> httpx.Response:
        """Start the server with these options; the answer says whether it was refused."""
        return self.http.post(
            f"/hub/api/users/{self.name}/server",
            json=options,
            headers={"X-XSRFToken": self._xsrf(), "Referer": f"{self.url}/hub/home"},
        )

    def server(self) -> dict[str, Any]:
        """The default server as the hub sees it; empty when there is none."""
        servers = self.hub("GET", f"users/{self.name}").get("servers") or {}
        return dict(servers.get("", {}))

    def wait_until_ready(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Wait for the server."""
        wait_for(f"{self.name}'s server", lambda: self.server().get("ready"), timeout_s=timeout_s)

    def stop_server(self) -> None:
        """Stop the server and wait until it is gone."""
        self.hub("DELETE", f"users/{self.name}/server")
        wait_for(f"the end of {self.name}'s server", lambda: not self.server())

    def lab(self, method: str, path: str, **options: Any) -> Any:
        """A call to the notebook server, as its owner."""
        answer = httpx.request(
            method,
            f"{self.url}/user/{self.name}/{path}",
            headers={"Authorization": f"token {self.token}"},
            timeout=40,
            **options,
        )
        if answer.is_error:
            message = f"{method} {path}: {answer.status_code} {answer.text[:400]}"
            raise TourFailedError(message)
        return answer.json() if answer.content else None

    # --- pages of the service ----------------------------------------------------------------

    def page(self, path: str) -> httpx.Response:
        """A page of the service, through the hub's OAuth."""
        return self.http.get(f"/services/gpucommons/{path}")

    def take_ticket(self, **fields: str) -> str:
        """Wait in line through the ticket page; returns the ticket's path below the service."""
        confirm = self.http.get("/services/gpucommons/ticket", params=fields)
        found = re.search(r'name="_xsrf" value="([^"]+)"', confirm.text)
        check(found is not None, f"the ticket page has no form: {confirm.text[:400]}")
        assert found is not None
        answer = self.http.post(
            "/services/gpucommons/ticket",
            data={**fields, "_xsrf": found[1]},
            headers={"Referer": str(confirm.url)},
        )
        check("/ticket/" in answer.url.path, f"no ticket: {answer.status_code} {answer.url}")
        return answer.url.path.split("/services/gpucommons/", 1)[1]

    def ticket(self, path: str) -> dict[str, Any]:
        """The live state of a ticket page."""
        answer = self.page(f"{path}/state")
        return dict(json.loads(answer.text))
