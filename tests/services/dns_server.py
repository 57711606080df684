"""A DNS server on loopback that knows the TXT records it is given, and nothing else."""

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
    """Yield a resolver that asks it."""
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
        texts = records.get(question.name.to_text(omit_final_dot=True))
        if texts is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            quoted = [f'"{text}"' for text in texts]
            answer.answer.append(
                dns.rrset.from_text_list(question.name, 60, "IN", dns.rdatatype.TXT, quoted)
            )
        listener.sendto(answer.to_wire(), asker)
