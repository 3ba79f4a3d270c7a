package noded

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// console is where a node tells its story: a line an event, with UTC time and who speaks. No secret is written to it.
type console struct {
	mu  sync.Mutex
	out io.Writer

	heard func(who string) // nil, or told of each line
}

func (c *console) printf(format string, args ...any) { c.from("agent", fmt.Sprintf(format, args...)) }

func (c *console) from(who, line string) {
	text := fmt.Sprintf("%s %s: %s\n", time.Now().UTC().Format("15:04:05.000"), who, line)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.out, text) // a console that is gone is no reason to stop
	if c.heard != nil {
		c.heard(who)
	}
}

// Write takes whole lines as they are, from packages that tell their own story.
func (c *console) Write(lines []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(lines)
}

// move has all further lines go elsewhere.
func (c *console) move(to io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = to
}

// listen has each line's speaker told from now on.
func (c *console) listen(heard func(who string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = heard
}
