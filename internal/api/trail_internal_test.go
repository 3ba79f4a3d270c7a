package api

import (
	"fmt"
	"testing"
	"time"

	"muster/internal/kinds/person"
)

func TestReadsOfOnePersonLeaveABoundedNumberOfRows(t *testing.T) {
	log, now := newTrail(), time.Now()
	rows, last := 0, person.Entry{}
	read := func(object string, at time.Time) {
		e := person.Entry{ID: "a", Person: "sam", Action: "get-cluster", Object: object, Remote: "192.0.2.1:1"}
		for _, e := range log.ofRead(e, at) {
			rows, last = rows+1, e
		}
	}
	for i := range 10_000 {
		read(fmt.Sprint("made-up-", i), now)
	}
	if rows != 3000 {
		t.Errorf("10,000 reads at once of what differs are written in %d rows", rows)
	}
	read("cfd", now.Add(2*time.Second))
	if rows != 3002 || last.Action != "left-out" || last.Object != "7000 reads" {
		t.Errorf("%d rows, and the last says %s %s", rows, last.Action, last.Object)
	}
	for i := range 600 {
		read("cfd", now.Add(2*time.Second+time.Duration(i)*100*time.Millisecond))
	}
	if rows != 3002 {
		t.Errorf("a read that comes again for a minute is written: %d rows", rows)
	}
	if read("cfd", now.Add(2*time.Hour)); rows != 3003 {
		t.Errorf("after two hours it is written again: %d rows", rows)
	}
}
