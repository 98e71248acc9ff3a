"""What every package uses: checks of arguments, memory, threads, files, and names that are loaded late."""
