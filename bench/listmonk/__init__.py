"""listmonk on the same machine, with the same PostgreSQL and the same mail server.

listmonk is under the AGPL. It is only run, as a program of its own, to compare its results with
ours: nothing of it is linked with Postroom, copied into this repository or distributed.
"""
