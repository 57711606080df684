"""The REST API, mounted at `/api/v1`, and its documentation at `/api/docs`."""
