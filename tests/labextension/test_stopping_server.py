"""A stopped server answers no more and ends, whatever threads of its requests do."""

from __future__ import annotations

import subprocess
import sys

import httpx
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from gpucommons.labextension.stopping_server import answer_no_more

_LEFT = """
import threading
from gpucommons.labextension.stopping_server import end_after_main
threading.Thread(target=threading.Event().wait).start()
end_after_main(0.1)
print("done", flush=True)
"""


def test_a_thread_that_nobody_tells_to_end_does_not_hold_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LEFT], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "done\n"


async def test_while_it_stops_every_request_is_refused_as_by_a_proxy_without_a_server() -> None:
    application = Application([(r"/api", RequestHandler)], xsrf_cookies=True)
    application.add_handlers(r".*$", [(r"/of-an-extension", RequestHandler)])
    server, (socket, port) = HTTPServer(application), bind_unused_port()
    server.add_socket(socket)

    answer_no_more(application)
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as page:
        asked = [await page.request(how, "/api") for how in ("GET", "POST")]
        asked.append(await page.get("/of-an-extension"))
    server.stop()

    # Lab takes 503 for a server that may come back, and anything else for a kernel that is dead.
    assert [each.status_code for each in asked] == [503, 503, 503]
    assert {each.headers["Connection"] for each in asked} == {"close"}
