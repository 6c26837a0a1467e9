"""The pipeline from Python: in a notebook, a job, or the commands."""
