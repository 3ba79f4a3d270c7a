package fake

import (
	"context"
	"maps"
	"strings"

	"golang.org/x/sys/unix"
)

// fresh is what a virtual function has that was not configured.
func fresh(infiniband bool) map[string]string {
	if infiniband {
		return map[string]string{"node_guid": "00:00:00:00:00:00:00:00", "port_guid": "00:00:00:00:00:00:00:00", "state": "auto"}
	}
	return map[string]string{"mac": "00:00:00:00:00:00", "vlan": "0", "spoofchk": "on", "trust": "off", "state": "auto"}
}

// VF tells of a virtual function that is there.
func (k *Kernel) VF(_ context.Context, link string, number int) (map[string]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.link(link)
	if f == nil || number >= len(f.vfs) {
		return nil, unix.ENODEV
	}
	return maps.Clone(f.settings[number]), nil
}

// SetVF sets what the link's kind has.
func (k *Kernel) SetVF(_ context.Context, link string, number int, name, value string) error {
	return k.step("set "+name+" of "+link+" to "+value, func() error {
		f := k.link(link)
		if f == nil || number >= len(f.vfs) {
			return unix.EINVAL
		}
		if _, known := f.settings[number][name]; !known {
			return unix.EOPNOTSUPP
		}
		if name == "mac" && strings.HasPrefix(value, "ff") {
			return unix.EINVAL
		}
		if !k.ignored[name] {
			f.settings[number][name] = value
		}
		return nil
	})
}

func (k *Kernel) link(name string) *function {
	for _, f := range k.functions {
		if f.Link == name && f.bound == f.Driver {
			return f
		}
	}
	return nil
}
