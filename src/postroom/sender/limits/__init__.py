"""How many emails may go out: per second, per domain, per connection."""
