package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Some numbers that all nodes of a host share with it are few by tradition, and what they count costs memory that is the node's:
// the kernel lets a host have many, and each node has a bound of its own where there is one.

// mostTerminals is how many pseudoterminals one node may have: enough for its logins, tmux and ssh.
const mostTerminals = 256

// fewNumbers are settings of the kernel, and what they are at least. But for terminals the bound of a node is its memory, in
// which each request of asynchronous I/O (io_setup), each open file, each watch of inotify and the buffers of its sockets have
// their place.
func fewNumbers() map[string]int64 {
	var host unix.Sysinfo_t
	_ = unix.Sysinfo(&host) // it fails for a bad address alone
	pages := int64(host.Totalram) * int64(host.Unit) / int64(os.Getpagesize())
	return map[string]int64{
		"/proc/sys/kernel/pty/max": 1 << 16,
		"/proc/sys/fs/aio-max-nr":  1 << 40,
		"/proc/sys/fs/file-max":    1 << 40,

		"/proc/sys/net/ipv4/tcp_mem": pages, // where sockets come under pressure, and where they get nothing more
		"/proc/sys/net/ipv4/udp_mem": pages,

		"/proc/sys/net/ipv4/tcp_max_orphans": 1 << 22,

		"/proc/sys/fs/inotify/max_user_instances": 1 << 20,
		"/proc/sys/fs/inotify/max_user_watches":   1 << 30,
	}
}

// widen has the host have as many of these as all its nodes may take. A setting that is higher stays; one of several numbers has
// each of them raised.
func widen(numbers map[string]int64) (err error) {
	for path, least := range numbers {
		text, failed := os.ReadFile(path)
		if errors.Is(failed, os.ErrNotExist) { // a kernel without it
			continue
		}
		numbers, low := strings.Fields(string(text)), false
		for i := range numbers {
			now, odd := strconv.ParseInt(numbers[i], 10, 64)
			if failed = errors.Join(failed, odd); now < least {
				numbers[i], low = strconv.FormatInt(least, 10), true
			}
		}
		if failed == nil && low {
			failed = os.WriteFile(path, []byte(strings.Join(numbers, " ")), 0o644)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("raise %s: %w", path, failed))
		}
	}
	return err
}
