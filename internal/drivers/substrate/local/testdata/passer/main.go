// Passer sends files into sockets that are never read, and says in /home/sent how many the kernel let it: with an argument, that
// many at most. It keeps them.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	most := 1 << 22
	if len(os.Args) > 1 {
		most, _ = strconv.Atoi(os.Args[1])
	}
	files := make([]int, min(most, 253)) // unix(7): no more in one message
	sent := 0
	for full := true; full && sent < most; {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			break
		}
		full = false
		for sent < most {
			err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(files...), nil, 0)
			if full = err == unix.EAGAIN; err != nil {
				break
			}
			sent += len(files)
		}
	}
	if os.WriteFile("/home/part", fmt.Append(nil, sent), 0o644) == nil {
		_ = os.Rename("/home/part", "/home/sent")
	}
	time.Sleep(time.Hour)
}
