"""Local files in which a sender records its work for the next sender, in case it is killed."""
