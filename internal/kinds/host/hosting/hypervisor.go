package hosting

import (
	"context"
	"errors"
	"fmt"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
)

// Enrol sees to it that the controller's host is in the inventory as a machine that holds guests. It may be called again.
func Enrol(ctx context.Context, tx *core.Tx, m inventory.Machine) error {
	is, err := machine.Get(ctx, tx, m.Name)
	switch {
	case err == nil && !is.Hosts:
		return fmt.Errorf("make this host a hypervisor: machine %s exists and is not a hypervisor; remove it first", m.Name)
	case err == nil:
		return nil
	case !errors.Is(err, core.ErrNotFound):
		return err
	}
	tx.Log(core.Event{Type: "machine.enrolled", Machine: m.Name, Text: "this host, as a hypervisor"})
	m.Hosts = true
	return machine.Add(ctx, tx, m)
}

// HypervisorName makes the name of a machine that holds guests from that of its host.
func HypervisorName(host string) string {
	name := []byte{}
	for _, c := range []byte(host) {
		switch {
		case 'A' <= c && c <= 'Z':
			name = append(name, c-'A'+'a')
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			name = append(name, c)
		case c == '.':
			return withMark(name)
		case len(name) > 0 && name[len(name)-1] != '-':
			name = append(name, '-')
		}
	}
	return withMark(name)
}

func withMark(name []byte) string {
	const longest = 40
	for len(name) > longest || len(name) > 0 && name[len(name)-1] == '-' {
		name = name[:len(name)-1]
	}
	if len(name) == 0 {
		name = []byte("host")
	}
	return string(name) + "-hv"
}
