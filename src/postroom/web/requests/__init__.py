"""Requests for pages: views, forms, cookies, logins."""
