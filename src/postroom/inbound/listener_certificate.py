"""The certificate of the mail listener, which is renewed every few weeks while Postroom runs."""

from __future__ import annotations

import logging
import os
import ssl

from postroom.errors import PostroomError

log = logging.getLogger(__name__)


class ListenerError(PostroomError):
    """The listener cannot be started; the text says why."""


class ListenerCertificate:
    """Certificate and key in PEM files. Without a key file, the key is in the certificate's."""

    def __init__(self, certificate: str, key: str = "") -> None:
        """Load both. `ListenerError`."""
        self._certificate = certificate
        self._key = key
        try:
            self._read_at = self._changed_at()
            self._context = self._load()
        except OSError as exc:
            raise ListenerError(self._problem(exc)) from exc

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a connection, with the files as they are now. While they cannot
        be used, it has the last ones that could."""
        try:
            changed_at = self._changed_at()
            if changed_at != self._read_at:
                self._read_at = changed_at
                self._context = self._load()
                log.info("the mail listener uses the renewed certificate %s", self._certificate)
        except OSError as exc:  # also `SSLError`
            log.warning("the mail listener keeps its certificate: %s", self._problem(exc))
        return self._context

    def _changed_at(self) -> tuple[float, ...]:
        names = (self._certificate, self._key or self._certificate)
        return tuple(os.stat(each).st_mtime for each in names)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate, self._key or None)
        return context

    def _problem(self, exc: OSError) -> str:
        why = exc.strerror or str(exc)
        if isinstance(exc, ssl.SSLError):
            why = "they contain no certificate with a matching key"
        files = (
            f"{self._certificate!r} and {self._key!r}" if self._key else f"{self._certificate!r}"
        )
        return (
            f"inbound_certificate and inbound_key must name readable PEM files, not {files}: {why}"
        )
