"""The root of every error that Postroom raises on purpose."""


class PostroomError(Exception):
    """Something went wrong that Postroom foresaw; its text is one line for the person who reads it.

    Every error of the project's own derives from this class, so that whoever talks to people
    (the command line, the web pages) can tell them apart from faults in the code.
    """
