"""What decides about delivery: providers, their rates, warm-up plans, DKIM keys, and bounces."""
