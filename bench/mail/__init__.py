"""The whole way of a message, beside other ways of getting mail to the same server."""
