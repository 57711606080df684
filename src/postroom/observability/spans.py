"""Traces: what belongs to one API call, from the request to the mail server's reply.

They are sent if OpenTelemetry is installed (`pip install 'postroom[tracing]'`) and
`traces_endpoint` is set. Otherwise a span costs one comparison.

A trace crosses processes with the message: its row has the W3C `traceparent` of the request that
created it, which scheduler and senders continue.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from postroom.errors import PostroomError

_tracer: Any = None
_provider: Any = None
_NOTHING = nullcontext()


class NoTracing(PostroomError):
    """The packages for traces are not installed."""


def set_up_spans(part: str, endpoint: str) -> None:
    """Send the spans of this process to an OTLP endpoint. Call it after a fork, not before."""
    global _tracer, _provider
    if not endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise NoTracing(
            "traces_endpoint is set, but OpenTelemetry is not installed:"
            " pip install 'postroom[tracing]'"
        ) from exc
    _provider = TracerProvider(resource=Resource({"service.name": f"postroom {part}"}))
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = _provider.get_tracer("postroom")


def flush_spans() -> None:
    """Send the remaining spans before the process ends."""
    if _provider is not None:
        _provider.shutdown()


def span(name: str, *, parent: str = "", **attributes: str | int) -> AbstractContextManager[object]:
    """Record a span inside the current one, or inside `parent` of another process."""
    if _tracer is None:
        return _NOTHING
    context = _context_of(parent) if parent else None
    recorded: AbstractContextManager[object] = _tracer.start_as_current_span(
        name, context=context, attributes=attributes
    )
    return recorded


def note(**attributes: str | int) -> None:
    """Add attributes to the current span."""
    if _tracer is not None:
        from opentelemetry import trace

        trace.get_current_span().set_attributes(attributes)


def traceparent() -> str:
    """Return the current span for another process; empty without one."""
    if _tracer is None:
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


def _context_of(parent: str) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})
