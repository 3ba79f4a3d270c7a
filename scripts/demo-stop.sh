#!/usr/bin/env bash
# Ends the demo: its clusters, its controller, its data directory. What was built stays in bin/ and build/.
set -euo pipefail
cd "$(dirname "$0")/.."
muster=$PWD/bin/muster
export MUSTER_DATA=${MUSTER_DATA:-/var/lib/muster}
unset MUSTER_URL MUSTER_TOKEN

if [[ ! -e $MUSTER_DATA/demo ]]; then
    echo "demo-stop: no demo runs here"
    exit 0
fi
pid=$(cat "$MUSTER_DATA/controller.pid" 2>/dev/null || true)
ours() { [[ -n $pid && $(readlink "/proc/$pid/exe" 2>/dev/null) == "$muster"* ]]; }

if ! ours && [[ -n $(ls "$MUSTER_DATA/local/nodes" 2>/dev/null) ]]; then
    echo "demo-stop: the controller is gone; it is started once more to take its nodes away"
    setsid nohup "$muster" serve >>"$MUSTER_DATA/controller.log" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 100); do "$muster" whoami >/dev/null 2>&1 && break; sleep 0.1; done
fi
if ours; then
    for name in $("$muster" list -o json | sed -n 's/^ \{0,8\}"name": "\(.*\)",$/\1/p' | sort -u); do
        "$muster" get "$name" >/dev/null 2>&1 && "$muster" delete "$name" --wait
    done
    kill "$pid"
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
fi
if grep -q " $MUSTER_DATA/" /proc/self/mountinfo; then
    echo "demo-stop: something below $MUSTER_DATA is still mounted; see $MUSTER_DATA/controller.log" >&2
    exit 1
fi
rm -rf "$MUSTER_DATA"
echo "demo-stop: the host is as it was"
