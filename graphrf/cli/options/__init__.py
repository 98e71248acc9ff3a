"""Code shared by the commands: the table of options, input files, messages and output."""
