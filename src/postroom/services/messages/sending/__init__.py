"""A message under way: its pages, outcomes and progress, holds and retries."""
