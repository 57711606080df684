"""A message being sent: its pages, outcomes and progress, holds and retries."""
