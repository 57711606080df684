"""Parts that meet the outside world, tested together with it."""
