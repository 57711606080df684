"""Pages about subscribers and their addresses: index, editing, import, trace and suppression."""
