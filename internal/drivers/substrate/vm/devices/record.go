package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"muster/internal/kit/files"
	"muster/internal/kit/wrap"
)

// record is what sysfs cannot tell of a device that is not free.
type record struct {
	PCI       string `json:"pci"`
	Guest     string `json:"guest"`
	Parent    string `json:"parent,omitempty"` // physical function of a virtual one, which may be gone when it is wanted
	Number    int    `json:"number,omitempty"` // of a virtual function, from 0
	MAC       string `json:"mac,omitempty"`
	VLAN      int    `json:"vlan,omitempty"`
	GUID      string `json:"guid,omitempty"`
	Keys      string `json:"keys,omitempty"` // partitions by ports: "0x…=0x0123,…"
	Withheld  bool   `json:"withheld,omitempty"`
	Returning bool   `json:"returning,omitempty"`
	Lost      string `json:"lost,omitempty"`
}

// isAddress says whether a text is a PCI address as sysfs spells it.
func isAddress(text string) bool {
	return regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`).MatchString(text)
}

func (d *Driver) recordPath(address string) string { return filepath.Join(d.Dir, address+".json") }

// record is that of a device; nil if it has none.
func (d *Driver) record(address string) (*record, error) {
	text, err := os.ReadFile(d.recordPath(address))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record of a device: %w", err)
	}
	r, err := parseRecord(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.recordPath(address), err)
	}
	return &r, nil
}

func parseRecord(text []byte) (record, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, fmt.Errorf("record of a device: %w", err)
	}
	switch {
	case !isAddress(r.PCI), r.Parent != "" && !isAddress(r.Parent):
		return record{}, fmt.Errorf("record of a device: %q below %q is no PCI address", r.PCI, r.Parent)
	case r.Guest == "" || r.Number < 0:
		return record{}, fmt.Errorf("record of device %s: it is for guest %q, virtual function %d", r.PCI, r.Guest, r.Number)
	}
	if _, err := parseKeys(r.Keys); err != nil {
		return record{}, fmt.Errorf("record of device %s: %w", r.PCI, err)
	}
	return r, nil
}

// records are all of them, by address; what is withheld comes last, since it waits for what it was withheld for.
func (d *Driver) records() ([]record, error) {
	entries, err := os.ReadDir(d.Dir)
	if err != nil {
		return nil, fmt.Errorf("records of devices: %w", err)
	}
	var all []record
	for _, e := range entries {
		address, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue // half written by a process that died
		}
		r, err := d.record(address)
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, *r)
		}
	}
	slices.SortStableFunc(all, func(a, b record) int {
		switch {
		case a.Withheld == b.Withheld:
			return 0
		case b.Withheld:
			return -1
		}
		return 1
	})
	return all, nil
}

// save makes a record the truth, whole or not at all, on the disk before it returns.
func (d *Driver) save(r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of device %s: %w", r.PCI, err)
	}
	return wrap.Errorf(files.Write(d.recordPath(r.PCI), text, 0o600), "record of device %s", r.PCI)
}

// forget says that the device is free.
func (d *Driver) forget(address string) error {
	err := os.Remove(d.recordPath(address))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = files.Sync(d.Dir) // that it is gone
	}
	return wrap.Errorf(err, "record of device %s", address)
}
