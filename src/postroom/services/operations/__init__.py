"""What operators need: health, disk space, the explorer, copying and converting stores."""
