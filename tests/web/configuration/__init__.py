"""Settings that are made in the browser, over HTTP."""
