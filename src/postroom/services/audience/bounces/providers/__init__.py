"""What email providers report by webhook: how each proves that it is the sender, and what its
events say about our emails."""
