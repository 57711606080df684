"""Mail and events that come in: the application of `mail/bounce`, a mail listener, a mailbox."""
