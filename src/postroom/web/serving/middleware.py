"""Headers that every answer carries, and what is believed of those that came."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing from elsewhere, nothing inline. A preview of a mail is shown in a sandboxed frame, whose
# own answer replaces this policy (`sandbox.py`).
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
_A_YEAR = "max-age=31536000"
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": POLICY,
    # Pages show people's addresses: no cache on the way may keep them.
    "Cache-Control": "no-store",
}


def hsts_of(setting: str, *, is_behind_tls: bool) -> str:
    """Return the header that tells browsers to come by https only, or nothing.

    By itself it is for our own host alone: other servers below its name may have no https.
    """
    if setting == "yes":
        return f"{_A_YEAR}; includeSubDomains"
    return _A_YEAR if setting == "auto" and is_behind_tls else ""


class SecureHeaders:
    """Adds the headers above, unless the answer brought its own."""

    def __init__(self, app: ASGIApp, *, hsts: str) -> None:
        self._app = app
        headers = dict(_ALWAYS)
        if hsts:
            headers["Strict-Transport-Security"] = hsts
        # As ASGI has them, so that an answer costs one comparison and no encoding.
        self._headers = [(name.lower().encode(), text.encode()) for name, text in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message["headers"]
                brought = {name for name, _ in own}
                message["headers"] = [*own, *(h for h in self._headers if h[0] not in brought)]
            await send(message)

        await self._app(scope, receive, send_with_headers)
