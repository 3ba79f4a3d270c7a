package spec

import (
	"fmt"
	"strings"
	"time"
)

// When is a time as people read it. A controller's and a user's zones may differ, so that the zone is always there.
func When(t time.Time) string {
	layout := "Mon 2006-01-02 15:04 MST"
	if t.Second() != 0 {
		layout = "Mon 2006-01-02 15:04:05 MST"
	}
	return t.UTC().Format(layout)
}

// Begin is when the lease starts for a request that is made now.
func Begin(l Lease, now time.Time) time.Time {
	at, err := Time(l.Start, now)
	if err != nil {
		return now
	}
	return at
}

// Time reads a time as a cluster file has it: now, in RFC 3339, or "+2h" for as long from now.
func Time(text string, now time.Time) (time.Time, error) {
	k := kinds["time"]
	after, relative := strings.CutPrefix(text, "+")
	switch {
	case !k.accepts(text):
		return now, fmt.Errorf("%q is not a time: write %s", text, k.advice())
	case text == Now:
		return now, nil
	case relative:
		return now.Add(Duration(after)), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	return at.UTC(), err
}
