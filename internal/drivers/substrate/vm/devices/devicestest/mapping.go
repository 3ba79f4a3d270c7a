package devicestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/vm/devices"
)

// Mapping is an adapter of mlx4 (ConnectX-2 or -3) whose virtual functions are not in use, with two ports on InfiniBand.
type Mapping struct {
	Kernel   devices.Kernel
	Device   string // "mlx4_0"
	Physical string // its PCI address
	Function string // folder of its first virtual function
	Logf     func(format string, args ...any)
}

// RunMapping goes through what the driver of devices relies on where partitions are mapped. There was no such adapter to try it
// on: it is what Linux's source says (drivers/infiniband/hw/mlx4/sysfs.c), for the fake and for the first host that has one.
func RunMapping(ctx context.Context, m Mapping) error {
	iov := path.Join("class/infiniband", m.Device, "iov")
	port := func(of, kind, n string) string { return path.Join(iov, of, "ports/1", kind, n) }
	own := path.Join("ports/1/pkey_idx")
	first, second, last := path.Join(iov, m.Function, own, "0"), path.Join(iov, m.Function, own, "1"),
		path.Join(iov, m.Function, own, "126")
	table, guid := path.Join(iov, "ports/1/pkeys"), path.Join(iov, "ports/1/admin_guids/1")
	reads := func(file, want string) error {
		got, err := m.Kernel.Read(file)
		if err == nil && got != want {
			err = fmt.Errorf("%s reads %q, want %q", file, got, want)
		}
		return err
	}
	writes := func(file, text, want string) error {
		return errors.Join(m.Kernel.Write(ctx, file, text), reads(file, want))
	}
	for _, p := range []struct {
		promise string
		check   func() error
	}{
		{"the adapter's device is found from its function and leads back to it", func() error {
			names, err := m.Kernel.List("bus/pci/devices/" + m.Physical + "/infiniband")
			if err == nil && (len(names) != 1 || names[0] != m.Device) {
				err = fmt.Errorf("%s has %q", m.Physical, names)
			}
			return errors.Join(err, reads("class/infiniband/"+m.Device+"/device", m.Physical))
		}},
		{"a new function sees the port's first entry, and none besides", func() error {
			return errors.Join(reads(first, "0"), reads(second, "none"), reads(last, "none"))
		}},
		{"a table shows one slot less than there are", func() error {
			_, err := m.Kernel.Read(path.Join(table, "127"))
			names, err2 := m.Kernel.List(table)
			if err2 == nil && len(names) != 127 {
				err2 = fmt.Errorf("%d slots are shown", len(names))
			}
			return errors.Join(refused(err, fs.ErrNotExist), err2)
		}},
		{"an entry leads where it is told, and nowhere", func() error {
			return errors.Join(writes(first, "126", "126"), writes(first, "0x10", "16"), writes(first, "none", "none"),
				writes(last, "3", "3"), writes(last, "none", "none"))
		}},
		{"slots that are not shown, and words, are refused", func() error {
			var all error
			for _, text := range []string{"127", "128", "-1", "x"} {
				all = errors.Join(all, refused(m.Kernel.Write(ctx, first, text), unix.EINVAL))
			}
			return errors.Join(all, reads(first, "none"))
		}},
		{"the adapter's own entries stay", func() error {
			mine := port(m.Physical[:len("0000:04:")]+"00.0", "pkey_idx", "0")
			return errors.Join(refused(m.Kernel.Write(ctx, mine, "1"), unix.EINVAL), reads(mine, "0"))
		}},
		{"a function's folder says which slave it is", func() error { return reads(port(m.Function, "gid_idx", "0"), "1") }},
		{"the port's table cannot be written", func() error {
			err := m.Kernel.Write(ctx, path.Join(table, "1"), "0x8001")
			return refused(err, unix.EACCES, fs.ErrPermission)
		}},
		{"a GUID is kept as it was written, without zeros before it", func() error {
			return errors.Join(writes(guid, "0x0611223344556677", "611223344556677"),
				writes(guid, "0xffffffffffffffff", "ffffffffffffffff"))
		}},
		{"the port's own GUID is not written, and nobody says so", func() error {
			mine := path.Join(iov, "ports/1/admin_guids/0")
			before, err := m.Kernel.Read(mine)
			return errors.Join(err, m.Kernel.Write(ctx, mine, "0x0611223344556677"), reads(mine, before))
		}},
	} {
		if err := p.check(); err != nil {
			return fmt.Errorf("%s: %w", p.promise, err)
		}
		m.Logf("kept: %s", p.promise)
	}
	return nil
}
