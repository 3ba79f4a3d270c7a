#!/usr/bin/env bash
# The main job, start to finish: a controller, four machines made of this host, a cluster, a real MPI job.
set -euo pipefail
cd "$(dirname "$0")/.."
muster=$PWD/bin/muster
export MUSTER_DATA=${MUSTER_DATA:-/var/lib/muster}
unset MUSTER_URL MUSTER_TOKEN

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ muster %s\n' "$*"; "$muster" "$@"; }

if [[ -e $MUSTER_DATA && ! -e $MUSTER_DATA/demo ]]; then
    echo "demo: $MUSTER_DATA is there and is not the demo's; set MUSTER_DATA to another directory" >&2
    exit 1
fi
mkdir -p -m 0700 "$MUSTER_DATA"
touch "$MUSTER_DATA/demo"

if ! "$muster" whoami >/dev/null 2>&1; then
    say "Start the controller"
    echo "$ muster serve &"
    setsid nohup "$muster" serve >>"$MUSTER_DATA/controller.log" 2>&1 </dev/null &
    echo $! >"$MUSTER_DATA/controller.pid"
    for _ in $(seq 100); do
        "$muster" whoami >/dev/null 2>&1 && break
        kill -0 "$(cat "$MUSTER_DATA/controller.pid")" 2>/dev/null || { tail -5 "$MUSTER_DATA/controller.log" >&2; exit 1; }
        sleep 0.1
    done
fi
"$muster" whoami

say "Give it the images: the nodes', and the one that inspects whole machines"
run images import build/images/debian13-hpc/latest --name debian13-hpc
run images import build/images/inspector/latest --name inspector

have=$("$muster" machines list -o json | grep -c '"substrate": *"local"' || true)
if ((have < 4)); then
    say "Enrol this host as four machines"
    run machines add --local $((4 - have)) --wait
fi

say "Create a cluster: 1 head + 3 nodes"
cat examples/hello.yaml
run apply -f examples/hello.yaml --wait
run list

say "Use it: Slurm, then MPI over the cluster's network, then HPL"
run ssh hello -- srun -N3 hostname
run ssh hello -- 'cat > job.sh' <examples/measure.sh
run ssh hello -- bash job.sh

if ((have < 6)); then
    say "Two more machines, so that it can grow"
    run machines add --local $((6 - (have < 4 ? 4 : have))) --wait
fi

cat <<EOM

It runs. The console: this address signs a browser in, once, within ten minutes (muster console makes another one):
  $("$muster" console --no-browser)
Try next (put $PWD/bin into your PATH):
  muster describe hello
  muster ssh hello
  muster scale hello 5 --wait; muster scale hello 2 --wait
  muster events -w
  muster delete hello --wait
  make demo-stop                    # leaves the host as it was
EOM
