#!/usr/bin/env bash
# Runs every test that docs/security.md names, and the attacks on a whole site. Each row there ends in `package` `TestName`.
set -u
cd "$(dirname "$0")/.."
status=0
rows=$(grep -oE '`(internal|test)/[a-z0-9/]+`( `Test[A-Za-z0-9]+`)+' docs/security.md | tr -d '`' |
	awk '{for (i = 2; i <= NF; i++) tests[$1] = tests[$1] (tests[$1] ? "|" : "") $i} END {for (p in tests) print p, tests[p]}' | sort)
while read -r package tests; do
	unshare --mount --net bash -c 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && exec "$@"' attack \
		"${GO:-go}" test -json -count 1 -timeout 25m -run "^($tests)\$" "./$package" || status=1
done <<<"$rows"
exit "$status"
