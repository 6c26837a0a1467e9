"""What works with a line of Spark: the project's own code in a virtual environment for each."""
