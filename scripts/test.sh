#!/usr/bin/env bash
# All tests as one stream of JSON, for gotestsum: first the packages that leave the host alone, two at a time, and of them
# those that take minutes before the others, so that none of them is left to run by itself; then, one after the other, those
# that make networks and machines on the host and look at all that is there. Arguments go to `go test`.
# A pure package has no goroutines for the race detector to watch, and searches ten times longer under it.
set -u
cd "$(dirname "$0")/.."
GO=${GO:-go}
alone='^muster/(internal/(netns|rack|agent|hypervisor|substrate|environment|fabric/ethernet)|test)(/|$)'
long='^muster/internal/(lifecycle|api)$'
pure='^muster/internal/(placement|fabric/topology)$'
packages=$("$GO" list ./...) || exit
status=0
# shellcheck disable=SC2046 # names of packages hold no spaces
"$GO" test -json -p 2 "$@" $(grep -E "$long" <<<"$packages") $(grep -Ev "$alone|$long|$pure" <<<"$packages") || status=1
# shellcheck disable=SC2046
"$GO" test -json "${@/#-race*/-race=false}" $(grep -E "$pure" <<<"$packages") || status=1
# shellcheck disable=SC2046
"$GO" test -json -p 1 "$@" $(grep -E "$alone" <<<"$packages") || status=1
exit "$status"
