package firststage

import (
	"fmt"
	"io"
	"time"
)

// console is where a person at the machine reads what goes on. Each line is one write.
type console struct{ w io.Writer }

func (c console) say(format string, args ...any) { fmt.Fprintf(c.w, "muster: "+format+"\n", args...) }

// often limits how often the same kind of thing is said.
type often struct {
	every time.Duration
	last  time.Time
}

// now says whether it is time again, and counts it as said.
func (o *often) now() bool {
	if time.Since(o.last) < o.every {
		return false
	}
	o.last = time.Now()
	return true
}

// size writes bytes for people.
func size(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<19)>>20) }
