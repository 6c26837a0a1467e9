"""What tests of the PySpark side share: Spark sessions that begin and end, and streams that are counted."""
