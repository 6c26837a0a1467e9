r"""The fleet pipeline on a Spark cluster, with the options of ``featuregate fleet``.

spark-submit --master spark://HOST:7077 \
  --packages io.delta:delta-spark_2.13:4.0.0,org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \
  examples/spark_job/fleet.py run --once --logs /srv/logs --tables /srv/tables --cluster orders
"""

import sys

from featuregate.cli import main

if __name__ == "__main__":
    sys.exit(main(["fleet", *sys.argv[1:]]))
