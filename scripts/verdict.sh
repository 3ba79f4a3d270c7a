#!/usr/bin/env bash
# Passes gotestsum's output on, line by line, and names the tests that failed at first and passed when they were repeated: before its
# last line, so that its count ends the output. Fails if there was a data race. Arguments: gotestsum's files, of all events and of
# repeated tests.
set -u
count=
while IFS= read -r line; do
	if [[ $count ]]; then echo "$count" && count=; fi
	if [[ $line == 'DONE '* ]]; then count=$line; else printf '%s\n' "$line"; fi
done
if [[ -s $2 ]]; then # name: 2 runs, 1 failures
	awk -F ': | runs, | failures' '$2 > $3 { print (n++ ? "" : "failed at first:\n") "  " $1 } END { if (n) print "" }' "$2"
fi
if [[ $count ]]; then echo "$count"; fi
if grep -q '"Output":"WARNING: DATA RACE' "$1"; then
	echo "there was a data race" >&2
	exit 1
fi
