"""listmonk on the same machine, with the same PostgreSQL and the same mail server.

listmonk is under the AGPL. It only runs as a separate program, to compare its results with ours:
none of its code is linked with Postroom, copied into this repository or distributed.
"""
