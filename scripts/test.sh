#!/usr/bin/env bash
# All tests as one stream of JSON, for gotestsum. As many runs of `go test` go on at a time as there are cores, and more while those
# leave cores idle; those that take longest first. What each says comes out in one piece when it has ended. Runs of packages that
# make networks, mounts and machines have a lane each: a network and mounts of their own. Arguments go to `go test`.
set -u
cd "$(dirname "$0")/.."
GO=${GO:-go}
lane='^muster/(internal/(kit/netns|rack|noded|inspection|hostd|boot|netboot|drivers/(power|switch|substrate))|test)(/|$)'
# Without goroutines there is nothing for the race detector to watch, and it makes searches ten times longer.
pure='^muster/(internal/(access|drivers/scheduler/gpus|inventory|price|kit/printable|place(/.*)?|spec)|test/house)$'
# The longest, in this order. The others take seconds each, and are one run of each kind, which takes minutes.
long=(test/e2e internal/{kinds,noded,drivers/substrate/{vm,local}} test/{bootattack,crash,console,fabric,attack})
long+=(internal/{boot/firststage,api,core,rack,netboot})
long=("${long[@]/#/muster/}")
# Emulated guests whose services have limits: one run at a time has any.
emulated='^muster/internal/(noded|drivers/substrate/vm)$'
# What measures, clusters of emulated guests, and racks of emulated machines, whose boots and jobs have limits: last, with nothing
# beside them.
alone=(muster/test/{compare,guests,metal})

# queue prints the packages of one run on a line. The small ones come after the first few: a core that were left with them alone at
# the end would have minutes to do.
queue() {
	local packages first=3
	packages=$("$GO" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...) || return
	printf '%s\n' "${long[@]:0:first}" | grep -xFf <(echo "$packages") # a package may have moved
	printf '%s\n' "${long[@]:first}" | grep -xFf <(echo "$packages") >"$outputs/later"
	packages=$(grep -vxFf <(printf '%s\n' "${long[@]}" "${alone[@]}") <<<"$packages")
	grep -E "$pure" <<<"$packages" | paste -sd ' '
	packages=$(grep -Ev "$pure" <<<"$packages")
	grep -Ev "$lane" <<<"$packages" | paste -sd ' '
	grep -E "$lane" <<<"$packages" | paste -sd ' '
	cat "$outputs/later"
	printf '%s\n' "${alone[@]}"
}

# run tests packages of one kind, one after the other. Arguments: the packages, --, what else goes to `go test`.
run() {
	local packages=() within=() out
	while [[ $1 != -- ]]; do packages+=("$1") && shift; done
	shift
	if [[ $packages =~ $pure ]]; then
		set -- "${@/#-race*/-race=false}"
	elif [[ $packages =~ $lane ]]; then
		within=(unshare --mount --net bash -c 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && exec "$@"' lane)
	fi
	out=$(mktemp "$outputs/XXXXXX")
	"${within[@]}" "$GO" test -json -p 1 "$@" "${packages[@]}" >"$out"
	local status=$?
	flock "$outputs" cat "$out"
	rm "$out"
	return "$status"
}

outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT

# idle sets left to the percentage of the cores' time that nobody has used since it was called before.
idle() {
	local user nice system unused iowait irq softirq steal all
	read -r _ user nice system unused iowait irq softirq steal _ </proc/stat
	all=$((user + nice + system + unused + iowait + irq + softirq + steal))
	left=$((all > allBefore ? 100 * (unused - unusedBefore) / (all - allBefore) : 0))
	allBefore=$all unusedBefore=$unused
}

# pick sets next to the first in the queue that may begin beside what goes on; "": none.
pick() {
	for next in "${!queued[@]}"; do
		[[ " ${alone[*]} " != *" ${queued[next]} "* ]] || ((running == 0)) || continue
		[[ ! ${queued[next]} =~ $emulated || ! $guests ]] || continue
		return
	done
	next=
}

# A run begins when fewer go on than there are cores, or when a look finds that the last seconds had a quarter of the cores' time to
# spare. Many tests mostly wait: for machines that boot, for nodes that are lost, for an answer that nobody gives.
packages=$(queue) || exit 2
mapfile -t queued <<<"$packages"
cores=$(nproc) most=$((3 * $(nproc))) running=0 status=0
left=0 allBefore=0 unusedBefore=0 look= guests=
while ((${#queued[@]} || running)); do
	pick
	if [[ $next ]] && ((running < cores || running < most && left > 25)); then
		# shellcheck disable=SC2086 # names of packages hold no spaces
		run ${queued[next]} -- "$@" &
		[[ ! ${queued[next]} =~ $emulated ]] || guests=$!
		unset "queued[next]"
		((running += 1, left = 0))
		continue
	fi
	if [[ ! $look && $next ]]; then
		idle
		left=0
		sleep 4 &>/dev/null &
		look=$!
	fi
	wait -n -p process
	one=$?
	if [[ $process == "$look" ]]; then
		look=
		idle
		continue
	fi
	[[ $process != "$guests" ]] || guests=
	((running -= 1, one > status)) && status=$one
done
[[ ! $look ]] || kill "$look"
exit "$status"
