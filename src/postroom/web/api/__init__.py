"""The REST API: `make_api` is mounted at `/api/v1`; `/api/docs` is one of its `API_VIEWS`."""

from postroom.web.api.app import make_api, mounted
from postroom.web.api.reference import API_VIEWS, docs_page

__all__ = ["API_VIEWS", "docs_page", "make_api", "mounted"]
