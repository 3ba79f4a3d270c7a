package rig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host is everything on this host that a rig may have made: a set of descriptions.
type host map[string]bool

// look lists processes, mounts, control groups, loop devices, network interfaces and state files of a data directory,
// and the host's own network.
func look(t testing.TB, data string) host {
	t.Helper()
	h := host{}
	local := filepath.Join(data, "local")
	mark := markOf(local)

	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], data+"/") {
			h["mount "+fields[4]] = true
		}
	}
	for _, pattern := range []string{"nodes/*", "clusters/*", "snapshots/*", "images/*", "locks/*", "runc/*"} {
		found, _ := filepath.Glob(filepath.Join(local, pattern))
		for _, path := range found {
			h["file "+path] = true
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range loops {
		if backing, err := os.ReadFile(path); err == nil && bytes.Contains(backing, []byte(data)) {
			h["loop device "+path] = true
		}
	}
	for _, mark := range []string{mark, markOf(filepath.Join(data, "guests"))} {
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + mark + "*")
		more, _ := filepath.Glob("/sys/fs/cgroup/" + mark + "*")
		for _, path := range append(groups, more...) {
			h["control group "+path] = true
		}
	}
	for _, args := range [][]string{{"-o", "link"}, {"-o", "addr"}, {"route", "show", "table", "all"}, {"netns", "list"}} {
		out, err := exec.Command("ip", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			if line != "" {
				h["ip "+strings.Join(args, " ")+": "+line] = true
			}
		}
	}
	for _, p := range processes(mark, data) {
		h["process "+p] = true
	}
	return h
}

// markOf begins the names of the control groups of what a driver keeps in a folder.
func markOf(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return "muster-" + hex.EncodeToString(sum[:4])
}

// processes lists those that are in a node's control group or name the data directory, but for controllers. The dead
// that wait for their parent count as gone: after a controller was killed, that parent is the host's first process,
// which takes its time.
func processes(mark, data string) []string {
	var all []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		end := bytes.LastIndexByte(stat, ')')
		if end < 0 || end+2 >= len(stat) || stat[end+2] == 'Z' {
			continue
		}
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		ours := bytes.Contains(group, []byte(mark)) || bytes.Contains(command, []byte(data)) &&
			!bytes.Contains(command, []byte("\x00serve\x00"))
		if ours {
			all = append(all, filepath.Base(dir)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return all
}

func (h host) minus(before host) []string {
	var left []string
	for what := range h {
		if !before[what] {
			left = append(left, what)
		}
	}
	return left
}
