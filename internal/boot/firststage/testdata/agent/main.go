// The agent's stand-in of the boot tests: it prints what it finds itself in, and switches off.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
)

func main() {
	view := map[string]any{"pid": os.Getpid(), "args": os.Args}
	for _, name := range []string{"/run/muster/boot.json", "/run/muster/network.json"} {
		text, err := os.ReadFile(name)
		info, _ := os.Stat(name)
		if err == nil {
			view[name] = map[string]any{"mode": info.Mode().String(), "text": json.RawMessage(text)}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	view["mounts"] = strings.Split(strings.TrimSpace(string(mounts)), "\n")
	root, _ := os.ReadDir("/")
	var names []string
	for _, e := range root {
		names = append(names, e.Name())
	}
	view["root"] = names
	marker, _ := os.ReadFile("/etc/marker")
	view["marker"] = string(marker)
	stay, _ := os.ReadFile("/var/stay")
	view["stay"] = string(stay)
	view["write"] = fmt.Sprint(os.WriteFile("/var/stay", []byte("from the boot before"), 0o600))
	memory, _ := os.ReadFile("/proc/meminfo")
	view["memory"] = strings.Split(string(memory), "\n")[:3]
	text, err := json.Marshal(view)
	fmt.Printf("VIEW %s %v\n", text, err)
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}
