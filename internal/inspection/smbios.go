package inspection

import (
	"fmt"
	"strings"

	"github.com/u-root/u-root/pkg/smbios"

	"muster/internal/inventory"
)

// firmware is what the System Management BIOS says (DMTF DSP0134).
type firmware struct {
	system    inventory.System
	processor string // version of the first processor
	dimms     []inventory.DIMM
}

func (m *machine) firmware() firmware {
	f := parseSMBIOS(m.Raw("sys/firmware/dmi/tables/DMI"))
	f.system.UEFI = m.Exists("sys/firmware/efi")
	return f
}

// parseSMBIOS reads a table of structures. What is cut off is left out.
func parseSMBIOS(table []byte) firmware {
	var f firmware
	for len(table) > 0 {
		t, rest, err := smbios.ParseTable(table)
		if err != nil { // its end, or it is damaged from here on
			break
		}
		table = rest
		f.add(t)
	}
	return f
}

// add takes what one structure says. One that is too short for its type says nothing.
func (f *firmware) add(t *smbios.Table) {
	switch t.Type {
	case smbios.TableTypeBIOSInfo:
		if b, err := smbios.ParseBIOSInfo(t); err == nil {
			f.system.Firmware = strings.TrimSpace(said(b.Version) + " " + said(b.ReleaseDate))
		}
	case smbios.TableTypeSystemInfo:
		if s, err := smbios.ParseSystemInfo(t); err == nil {
			f.system.Vendor, f.system.Product, f.system.Serial = said(s.Manufacturer), said(s.ProductName), said(s.SerialNumber)
		}
	case smbios.TableTypeProcessorInfo:
		if p, err := smbios.ParseProcessorInfo(t); err == nil && f.processor == "" {
			f.processor = strings.Join(strings.Fields(said(p.Version)), " ")
		}
	case smbios.TableTypeMemoryDevice:
		if d, err := smbios.NewMemoryDevice(t); err == nil && d.Size != 0 { // 0: the slot is empty
			f.dimms = append(f.dimms, dimm(d))
		}
	}
}

// said is a text; "" for what makers leave in it who have nothing to say.
func said(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	switch strings.ToLower(text) {
	case "not specified", "none", "unknown", "default string", "to be filled by o.e.m.", "system product name",
		"system manufacturer", "system serial number", "0123456789", "no dimm", "n/a", "<bad index>":
		return ""
	}
	return text
}

// dimm reads a memory device (DSP0134, 7.18).
func dimm(m *smbios.MemoryDevice) (d inventory.DIMM) {
	const unknown = 0xffff
	if m.Size != unknown {
		d.SizeMiB = int(m.GetSizeBytes() >> 20)
	}
	d.Slot = said(m.DeviceLocator)
	if bank := said(m.BankLocator); bank != "" && d.Slot != "" {
		d.Slot = bank + " " + d.Slot
	}
	speed := fullSpeed(m, m.ConfiguredSpeed, 0x58)
	if speed == 0 {
		speed = fullSpeed(m, m.Speed, 0x54) // as it could be
	}
	if speed > 0 {
		d.Speed = fmt.Sprintf("%d MT/s", speed)
	}
	return d
}

// fullSpeed is a speed, which stands in a wider field where it does not fit.
func fullSpeed(m *smbios.MemoryDevice, speed uint16, wider int) uint32 {
	const elsewhere = 0xffff
	if speed != elsewhere {
		return uint32(speed)
	}
	full, _ := m.GetDWordAt(wider) // older firmware has no such field
	return full & 0x7fffffff
}
