"""The store, compared with the raw drivers doing the same work in the same run."""
