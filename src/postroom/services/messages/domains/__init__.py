"""Domains that lists send from: their DKIM keys and their DNS records."""
