"""Links and pixels that measure clicks and opens."""
