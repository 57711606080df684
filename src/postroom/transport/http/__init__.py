"""Email providers with an HTTP API: everything but what each of them has of its own.

HttpTransport ──▶ CallQueue (joins batches into calls) ──▶ HTTP
     │
HttpProvider: the requests and responses of one provider (`sendgrid.py`); has no socket
"""
