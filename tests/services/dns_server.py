"""A DNS server on loopback that knows the records it is given, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


@contextmanager
def running_dns_server(records: Mapping[str, list[str]]) -> Iterator[dns.asyncresolver.Resolver]:
    """Yield a resolver that asks it. `records` has the TXT records of each name; those of other
    types are at `NAME TYPE`, such as `contoso.com MX`, as in a zone file. They may change."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=_serve, args=(listener, records), daemon=True)
    thread.start()
    try:
        yield resolver_of(listener)
    finally:
        # A datagram without content ends the loop.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", listener.getsockname())
        thread.join(10)
        listener.close()


def resolver_of(listener: socket.socket) -> dns.asyncresolver.Resolver:
    """Return a resolver that asks the server behind this socket, for a short time."""
    resolver = dns.asyncresolver.Resolver(configure=False)
    address, resolver.port = listener.getsockname()
    resolver.nameservers, resolver.lifetime = [address], 5.0
    return resolver


def _serve(listener: socket.socket, records: Mapping[str, list[str]]) -> None:
    while True:
        packet, asker = listener.recvfrom(4096)
        if not packet:
            return
        query = dns.message.from_wire(packet)
        question = query.question[0]
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.AA | dns.flags.RA
        name = question.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        found = records.get(f"{name} {kind}", [])
        if kind == "TXT":
            found = [_quoted(text) for text in records.get(name, [])]
        if found:
            answer.answer.append(
                dns.rrset.from_text_list(question.name, 60, "IN", question.rdtype, found)
            )
        elif not any(each.partition(" ")[0] == name for each in records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        listener.sendto(answer.to_wire(), asker)


def _quoted(text: str) -> str:
    """Return a TXT record of strings of at most 255 characters."""
    return " ".join(f'"{text[start : start + 255]}"' for start in range(0, len(text) or 1, 255))
