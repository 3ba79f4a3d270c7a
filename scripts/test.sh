#!/usr/bin/env bash
# All tests as one stream of JSON, for gotestsum: first the packages that leave the host alone, two at a time, and of them
# those that take minutes before the others, so that none of them is left to run by itself; then those that make networks and
# machines on the host and look at all that is there, in three lanes that do not see each other. Arguments go to `go test`.
# A pure package has no goroutines for the race detector to watch, and searches ten times longer under it.
set -u
cd "$(dirname "$0")/.."
GO=${GO:-go}
alone='^muster/(internal/(netns|rack|agent|hypervisor|substrate|environment|drivers/(power|switch))|test)(/|$)'
second='^muster/test/(e2e|house)$'
third='^muster/test/(attack|bootattack|crash|metal)$'
long='^muster/internal/(lifecycle|api|store)$'
pure='^muster/internal/(placement|fabric/topology)$'
packages=$("$GO" list ./...) || exit
status=0

# lane tests packages one after the other, in a network and with mounts of its own.
lane() {
	unshare --mount --net bash -c 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && exec "$@"' lane \
		"$GO" test -json -p 1 "$@"
}

# shellcheck disable=SC2046 # names of packages hold no spaces
"$GO" test -json -p 2 "$@" $(grep -E "$long" <<<"$packages") $(grep -Ev "$alone|$long|$pure" <<<"$packages") || status=1
# shellcheck disable=SC2046
"$GO" test -json "${@/#-race*/-race=false}" $(grep -E "$pure" <<<"$packages") || status=1
beside=$(mktemp -d) # their lines must not come in the middle of the first lane's
running=()
for n in second third; do
	# shellcheck disable=SC2046
	lane "$@" $(grep -E "${!n}" <<<"$packages") >"$beside/$n" &
	running+=($!)
done
# shellcheck disable=SC2046
lane "$@" $(grep -E "$alone" <<<"$packages" | grep -Ev "$second|$third") || status=1
for one in "${running[@]}"; do wait "$one" || status=1; done
cat "$beside"/*
rm -rf "$beside"
exit "$status"
