package inspection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// machine is the machine that is looked at, with all the ways to touch it.
type machine struct {
	options Options
	open    func(d disk, write bool) (device, error)

	mu      sync.Mutex
	console io.Writer
}

func newMachine(o Options, console io.Writer) *machine {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.LinkUp == nil {
		o.LinkUp = linkUp
	}
	return &machine{options: o, open: openBlock, console: console}
}

// logf writes a line to the console.
func (m *machine) logf(format string, args ...any) {
	text := fmt.Sprintf("%s inspection: %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = io.WriteString(m.console, text) // a console that is gone is no reason to stop
}

// path is a file of the machine: path("sys/block", "sda").
func (m *machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.options.Root}, parts...)...)
}

// text reads a small file of sysfs or procfs without the blanks around it; "" if it can't be read.
func (m *machine) text(parts ...string) string {
	text, err := os.ReadFile(m.path(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(text), "\x00"))
}

// raw reads a file of any bytes; nil if it can't be read.
func (m *machine) raw(parts ...string) []byte {
	content, err := os.ReadFile(m.path(parts...))
	if err != nil {
		return nil
	}
	return content
}

// number reads a file with a decimal number; otherwise where there is none.
func (m *machine) number(otherwise int64, parts ...string) int64 {
	n, err := strconv.ParseInt(m.text(parts...), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// names lists a directory, numbers in their order: sda before sdaa, eth2 before eth10.
func (m *machine) names(parts ...string) []string {
	entries, err := os.ReadDir(m.path(parts...))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.SortFunc(names, byNumber)
	return names
}

// exists says whether a file is there.
func (m *machine) exists(parts ...string) bool {
	_, err := os.Lstat(m.path(parts...))
	return err == nil
}

// real is the path that a link of sysfs leads to, from the root; "" if it leads nowhere.
func (m *machine) real(parts ...string) string {
	path, err := filepath.EvalSymlinks(m.path(parts...))
	if err != nil {
		return ""
	}
	root, err := filepath.EvalSymlinks(m.options.Root)
	if err != nil {
		return ""
	}
	relative, err := filepath.Rel(root, path)
	if err != nil {
		return ""
	}
	return relative
}

// linked is the last part of where a link of sysfs leads, as a driver's name: linked("sys/class/net/eth0/device/driver").
func (m *machine) linked(parts ...string) string {
	target, err := os.Readlink(m.path(parts...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// run runs a program for at most limit. It does not wait for a program that can't be killed because its disk hangs.
func (m *machine) run(ctx context.Context, limit time.Duration, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: no result after %v", argv[0], limit))
	defer cancel()
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := m.options.Tools.Run(ctx, argv...)
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
	}
	const killed = 2 * time.Second
	select {
	case r := <-done:
		return r.out, errors.Join(context.Cause(ctx), r.err)
	case <-time.After(killed):
		return nil, context.Cause(ctx)
	}
}

// byNumber compares names part by part, digits as numbers.
func byNumber(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m > 0 && n > 0 {
			p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
			if len(p) != len(q) {
				return len(p) - len(q)
			}
			if c := strings.Compare(p, q); c != 0 {
				return c
			}
			x, y = x[m:], y[n:]
			continue
		}
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		x, y = x[1:], y[1:]
	}
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(a, b)
}

// digits is how many digits a text starts with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
