"""Ways out: each takes a batch of emails and answers what became of each."""
