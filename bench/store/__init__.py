"""The store next to the raw drivers, doing the same work in the same run."""
