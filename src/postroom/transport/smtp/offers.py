"""What a server offers in its answer to EHLO (RFC 5321 4.1.1.1)."""

from __future__ import annotations

import msgspec


class Offers(msgspec.Struct, frozen=True):
    pipelining: bool = False  # RFC 2920
    starttls: bool = False  # RFC 3207
    smtputf8: bool = False  # RFC 6531
    size: int | None = None  # RFC 1870; 0 is 'no fixed limit', None 'not offered'
    auth: frozenset[str] = frozenset()  # RFC 4954

    def __str__(self) -> str:
        """For people: the names of what matters here."""
        names = [
            "PIPELINING" if self.pipelining else "",
            "STARTTLS" if self.starttls else "",
            "SMTPUTF8" if self.smtputf8 else "",
            f"SIZE {self.size}" if self.size else "",
            f"AUTH {' '.join(sorted(self.auth))}" if self.auth else "",
        ]
        return ", ".join(filter(None, names)) or "no extensions"


def parse_offers(lines: list[str]) -> Offers:
    """From the lines of the reply, without codes; the first is the greeting."""
    found: dict[str, str] = {}
    for line in lines[1:]:
        keyword, _, rest = line.strip().upper().partition(" ")
        if keyword.startswith("AUTH="):  # what old servers write instead of 'AUTH '
            keyword, rest = "AUTH", f"{keyword[5:]} {rest}"
        found[keyword] = f"{found.get(keyword, '')} {rest}".strip()
    size = found.get("SIZE")
    return Offers(
        pipelining="PIPELINING" in found,
        starttls="STARTTLS" in found,
        smtputf8="SMTPUTF8" in found,
        size=None if size is None else int(size) if size.isdecimal() else 0,
        auth=frozenset(found.get("AUTH", "").split()),
    )
