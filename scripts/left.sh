#!/usr/bin/env bash
# Passes gotestsum's output on, and says before its last line, which counts the tests, how many of them testall.Only left out.
# Argument: gotestsum's file of all events.
set -u
count=
while IFS= read -r line; do
	if [[ $line == 'DONE '* ]]; then count=$line; else printf '%s\n' "$line"; fi
done
left=$(grep -c '"Output":".*left to make test-all' "$1")
((left == 0)) || echo "$left tests are left to make test-all"
[[ ! $count ]] || echo "$count"
