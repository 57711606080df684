"""Messages that are sent to a part of their audience first: canaries, A/B tests, waves."""
