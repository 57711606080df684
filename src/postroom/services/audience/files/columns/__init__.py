"""What the columns of a file mean: fields, states and values."""
