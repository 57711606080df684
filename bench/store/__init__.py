"""The store beside the raw drivers, doing the same work in the same run."""
