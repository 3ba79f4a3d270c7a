package hardware

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/internal/kit/lists"
)

// Tree is the directory that has a machine's sys, proc and dev: "/".
type Tree string

// Path is a file of the machine: Path("sys/block", "sda").
func (t Tree) Path(parts ...string) string {
	return filepath.Join(append([]string{string(t)}, parts...)...)
}

// Text reads a small file without the blanks around it; "" if it can't be read.
func (t Tree) Text(parts ...string) string {
	return strings.TrimSpace(strings.Trim(string(t.Raw(parts...)), "\x00"))
}

// Raw reads a file of any bytes; nil if it can't be read.
func (t Tree) Raw(parts ...string) []byte {
	content, err := os.ReadFile(t.Path(parts...))
	if err != nil {
		return nil
	}
	return content
}

// Number reads a file with a decimal number; otherwise where there is none.
func (t Tree) Number(otherwise int64, parts ...string) int64 {
	n, err := strconv.ParseInt(t.Text(parts...), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// count is Number for what cannot be less than nothing, nor more than a machine can have.
func (t Tree) count(parts ...string) int { return int(min(max(0, t.Number(0, parts...)), 1<<31-1)) }

// Names lists a directory, numbers in their order: sda before sdaa, eth2 before eth10.
func (t Tree) Names(parts ...string) []string {
	entries, err := os.ReadDir(t.Path(parts...))
	if err != nil {
		return nil
	}
	names := lists.Map(entries, os.DirEntry.Name)
	slices.SortFunc(names, ByNumber)
	return names
}

// Exists says whether a file is there.
func (t Tree) Exists(parts ...string) bool {
	_, err := os.Lstat(t.Path(parts...))
	return err == nil
}

// Real is the path that a link of sysfs leads to, from the root; "" if it leads nowhere.
func (t Tree) Real(parts ...string) string {
	path, err := filepath.EvalSymlinks(t.Path(parts...))
	if err != nil {
		return ""
	}
	root, err := filepath.EvalSymlinks(string(t))
	if err != nil {
		return ""
	}
	relative, err := filepath.Rel(root, path)
	if err != nil {
		return ""
	}
	return relative
}

// Linked is the last part of where a link of sysfs leads, as a driver's name: Linked("sys/class/net/eth0/device/driver").
func (t Tree) Linked(parts ...string) string {
	target, err := os.Readlink(t.Path(parts...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// ByNumber compares names part by part, digits as numbers.
func ByNumber(a, b string) int {
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
