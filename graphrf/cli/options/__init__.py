"""Code shared by the commands: options, input files, error messages and output."""
