#!/usr/bin/env bash
# All tests as one stream of JSON, for gotestsum: first the packages that leave the host alone, two at a time; then, one
# after the other, those that make networks and machines on it and look at all that is there. Arguments go to `go test`.
set -u
cd "$(dirname "$0")/.."
GO=${GO:-go}
alone='^muster/(internal/(netns|rack|agent|substrate|environment)|test)(/|$)'
packages=$("$GO" list ./...) || exit
status=0
# shellcheck disable=SC2046 # names of packages hold no spaces
"$GO" test -json -p 2 "$@" $(grep -Ev "$alone" <<<"$packages") || status=1
# shellcheck disable=SC2046
"$GO" test -json -p 1 "$@" $(grep -E "$alone" <<<"$packages") || status=1
exit "$status"
