package inspection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// plant makes a machine's tree of files out of testdata/NAME.tree, whose lines are "path = text with \n", "path -> where
// a link leads", "path < file of bytes" and "$ program arguments = its output", and returns it with its programs.
func plant(t testing.TB, name string) (root string, tools answers) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".tree"))
	must(t, err)
	root, tools = t.TempDir(), answers{}
	for number, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path, operator, rest := splitLine(line)
		rest = strings.TrimSpace(rest)
		target := filepath.Join(root, path)
		switch operator {
		case " = ":
			if command, ok := strings.CutPrefix(path, "$ "); ok {
				tools[command] = unquote(t, rest)
				continue
			}
			write(t, target, unquote(t, rest))
		case " < ":
			content, err := os.ReadFile(filepath.Join("testdata", rest))
			must(t, err)
			write(t, target, string(content))
		case " -> ":
			must(t, os.MkdirAll(filepath.Dir(target), 0o755))
			must(t, os.Symlink(filepath.Join(root, rest), target))
		default:
			t.Fatalf("%s.tree:%d: no operator", name, number+1)
		}
	}
	return root, tools
}

// splitLine divides a line at the operator that comes first.
func splitLine(line string) (path, operator, rest string) {
	at := len(line)
	for _, o := range []string{" = ", " -> ", " < "} {
		if i := strings.Index(line, o); i >= 0 && i < at {
			at, operator = i, o
		}
	}
	if operator == "" {
		return line, "", ""
	}
	return line[:at], operator, line[at+len(operator):]
}

func unquote(t testing.TB, text string) string {
	t.Helper()
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	must(t, err)
	return s
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answers are programs that say what is written here: by the whole command, or by "program .../end of the command".
type answers map[string]string

func (a answers) Run(_ context.Context, argv ...string) ([]byte, error) {
	command := strings.Join(argv, " ")
	if out, ok := a[command]; ok {
		return []byte(out), nil
	}
	for pattern, out := range a {
		if program, end, ok := strings.Cut(pattern, " ..."); ok && program == argv[0] && strings.HasSuffix(command, end) {
			return []byte(out), nil
		}
	}
	return nil, fmt.Errorf("%s: not found", argv[0])
}

// quiet is a machine of a planted tree.
func quiet(t testing.TB, name string) *machine {
	t.Helper()
	root, tools := plant(t, name)
	return newMachine(Options{Root: root, Tools: tools, LinkUp: func(string) error { return nil }}, io.Discard)
}

// errDisk is what a broken disk of the tests says.
var errDisk = errors.New("input/output error")

// memoryDisk is a disk in memory. Its functions, where set, decide before the disk does.
type memoryDisk struct {
	content []byte
	read    func(offset int64, length int) error
	write   func(offset int64, length int) error
	discard func(offset, length int64) error // nil: really discards
	zero    func(offset, length int64) error // nil: really zeroes
	short   bool                             // reads come back half, without an error
}

// newMemoryDisk holds a tenant's data everywhere.
func newMemoryDisk(size int64) *memoryDisk {
	m := &memoryDisk{content: make([]byte, size)}
	for i := range min(mib, len(m.content)) {
		m.content[i] = byte(i>>9) ^ byte(i) | 1
	}
	for n := mib; n < len(m.content); n *= 2 {
		copy(m.content[n:], m.content[:n])
	}
	return m
}

func (m *memoryDisk) Size() int64  { return int64(len(m.content)) }
func (m *memoryDisk) Flush() error { return nil }
func (m *memoryDisk) Close() error { return nil }

func (m *memoryDisk) ReadAt(b []byte, offset int64) (int, error) {
	if m.read != nil {
		if err := m.read(offset, len(b)); err != nil {
			return 0, err
		}
	}
	if m.short {
		b = b[:len(b)/2]
	}
	if offset >= m.Size() {
		return 0, io.EOF
	}
	return copy(b, m.content[offset:]), nil
}

func (m *memoryDisk) WriteAt(b []byte, offset int64) (int, error) {
	if m.write != nil {
		if err := m.write(offset, len(b)); err != nil {
			return 0, err
		}
	}
	return copy(m.content[offset:], b), nil
}

func (m *memoryDisk) Discard(offset, length int64) error {
	if m.discard != nil {
		return m.discard(offset, length)
	}
	return m.clear(offset, length)
}

func (m *memoryDisk) Zero(offset, length int64) error {
	if m.zero != nil {
		return m.zero(offset, length)
	}
	return m.clear(offset, length)
}

func (m *memoryDisk) clear(offset, length int64) error {
	clear(m.content[offset : offset+length])
	return nil
}

// scramble is what a crypto erase leaves.
func (m *memoryDisk) scramble() {
	seed := random(64)
	for i := range m.content {
		m.content[i] = seed[i%64] ^ byte(i>>6) ^ byte(i>>14)
	}
}

// disk is how the machine sees it, without discard.
func (m *memoryDisk) disk(name, bus, kind string) disk {
	d := disk{path: "/dev/" + name, bytes: m.Size(), controller: name}
	d.Name, d.Bus, d.Kind, d.Model, d.Serial, d.Healthy = name, bus, kind, "Model", "S-"+name, true
	return d
}

// withDisk is a machine whose only disk is this one.
func withDisk(d device, tools Tools) *machine {
	m := newMachine(Options{Root: "/nonexistent", Tools: tools}, io.Discard)
	m.open = func(disk, bool) (device, error) { return d, nil }
	return m
}

// hanging is a program whose disk does not answer, not even to the kernel.
type hanging struct{ release chan struct{} }

func (h hanging) Run(context.Context, ...string) ([]byte, error) {
	<-h.release
	return nil, nil
}
