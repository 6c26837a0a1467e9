"""The argument lists: the parser, each command with its options, and the help texts. Nothing heavy is imported."""
