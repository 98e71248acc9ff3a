"""What the commands share: options, how they are read, refused and printed."""
