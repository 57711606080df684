"""What hits on tracked links are compared with: Starlette and a redirect, nothing else.

`python -m bench.web.bare_redirect PORT` serves it until it is stopped.
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tests.services.waiting import LOOPBACK


async def redirect(request: Request) -> Response:
    return RedirectResponse("https://www.example.com/", 302)


def main(port: str) -> None:
    app = Starlette(routes=[Route("/r/{token}/{number}", redirect)])
    uvicorn.run(app, host=LOOPBACK, port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
