"""Turns what an author wrote (HTML, Markdown, MJML or blocks) into the HTML and text of emails.

Everything here is a pure function of its arguments: nothing is read from a store, a file that an
author names, or a network. What is wrong with a source is a `ContentFinding` with its place.

The libraries take about 70 ms and 10 MB to import, which senders never need: each is imported by
the function that uses it.
"""
