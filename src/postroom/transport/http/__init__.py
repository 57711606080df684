"""Email providers with an HTTP API: everything that they have in common.

HttpTransport ──▶ CallQueue (joins batches into calls) ──▶ HTTP
     │
HttpProvider: the requests and responses of one provider (`sendgrid.py`); has no socket
"""
