package kindstest

import (
	"muster/internal/core/sealing"
)

// Keys is the ring of all tests' databases, and of stores that tests open beside Open. Its key is known: nothing in them is worth
// anything.
func Keys() *sealing.Ring { return sealing.Text("bXVzdGVyIHRlc3RzOiBub3RoaW5nIGlzIHNlY3JldCE=\n") }
