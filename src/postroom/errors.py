"""The root of every error that Postroom raises on purpose."""


class PostroomError(Exception):
    """An expected failure; its text is one line for the person who reads it.

    Every error of the project derives from this class, so that the command line and the web pages
    can tell it from a bug.
    """
