#!/usr/bin/env bash
# Passes gotestsum's output on, and names the tests that failed at first and passed when they were repeated: before its last line, so
# that its count ends the output. Fails if there was a data race. Arguments: gotestsum's files, of all events and of repeated tests.
set -u
awk -v repeated="$2" '
	count != "" { print count; count = "" }
	/^DONE / { count = $0; next }
	{ print; fflush() }
	END {
		while ((getline line < repeated) > 0) {
			split(line, part, /: | runs, | failures/) # name: 2 runs, 1 failures
			if (part[2] > part[3]) print (n++ ? "" : "failed at first:\n") "  " part[1]
		}
		if (n) print ""
		if (count != "") print count
	}'
if grep -q '"Output":"WARNING: DATA RACE' "$1"; then
	echo "there was a data race" >&2
	exit 1
fi
