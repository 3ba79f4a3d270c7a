package inspection

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

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

// Structure types of DSP0134, chapter 7.
const (
	smbiosFirmware  = 0
	smbiosSystem    = 1
	smbiosProcessor = 4
	smbiosMemory    = 17
	smbiosEnd       = 127
)

// parseSMBIOS reads a table of structures. Each has a head of type, length and handle, the rest of its fields up to
// length, and strings that end in zero, with an empty one at the end (DSP0134, 6.1). What is cut off is left out.
func parseSMBIOS(table []byte) firmware {
	var f firmware
	for len(table) >= 4 {
		length := int(table[1])
		if length < 4 || length > len(table) {
			break
		}
		s := structure{fields: table[:length]}
		table = s.takeStrings(table[length:])
		switch s.fields[0] {
		case smbiosFirmware:
			f.system.Firmware = strings.TrimSpace(s.text(5) + " " + s.text(8))
		case smbiosSystem:
			f.system.Vendor, f.system.Product, f.system.Serial = s.text(4), s.text(5), s.text(7)
		case smbiosProcessor:
			if f.processor == "" {
				f.processor = strings.Join(strings.Fields(s.text(0x10)), " ")
			}
		case smbiosMemory:
			if d, there := s.dimm(); there {
				f.dimms = append(f.dimms, d)
			}
		case smbiosEnd:
			return f
		}
	}
	return f
}

// structure is one structure of the table.
type structure struct {
	fields  []byte
	strings []string
}

// takeStrings reads the strings after the fields and returns what comes after them.
func (s *structure) takeStrings(rest []byte) []byte {
	for {
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return nil
		}
		if end == 0 {
			if len(s.strings) == 0 && len(rest) > 1 { // no strings at all: two zeros
				return rest[2:]
			}
			return rest[1:]
		}
		s.strings = append(s.strings, string(rest[:end]))
		rest = rest[end+1:]
	}
}

func (s structure) byte(at int) int {
	if at >= len(s.fields) {
		return 0
	}
	return int(s.fields[at])
}

func (s structure) word(at int) int {
	if at+2 > len(s.fields) {
		return 0
	}
	return int(binary.LittleEndian.Uint16(s.fields[at:]))
}

func (s structure) double(at int) int {
	if at+4 > len(s.fields) {
		return 0
	}
	return int(binary.LittleEndian.Uint32(s.fields[at:]))
}

// text is the string whose number is in a field; "" for what makers leave in it who have nothing to say.
func (s structure) text(at int) string {
	n := s.byte(at)
	if n == 0 || n > len(s.strings) {
		return ""
	}
	text := strings.ToValidUTF8(strings.TrimSpace(s.strings[n-1]), "?")
	switch strings.ToLower(text) {
	case "not specified", "none", "unknown", "default string", "to be filled by o.e.m.", "system product name",
		"system manufacturer", "system serial number", "0123456789", "no dimm", "n/a":
		return ""
	}
	return text
}

// dimm reads a memory device (DSP0134, 7.18); there is none in an empty slot.
func (s structure) dimm() (d inventory.DIMM, there bool) {
	const (
		unknown, extended = 0xffff, 0x7fff
		inKiB             = 0x8000
	)
	switch size := s.word(0x0c); {
	case size == 0:
		return d, false
	case size == unknown:
	case size == extended:
		d.SizeMiB = s.double(0x1c) & 0x7fffffff
	case size&inKiB != 0:
		d.SizeMiB = (size &^ inKiB) / 1024
	default:
		d.SizeMiB = size
	}
	d.Slot = s.text(0x10)
	if bank := s.text(0x11); bank != "" && d.Slot != "" {
		d.Slot = bank + " " + d.Slot
	}
	speed := s.speed(0x20, 0x58) // as configured
	if speed == 0 {
		speed = s.speed(0x15, 0x54) // as it could be
	}
	if speed > 0 {
		d.Speed = fmt.Sprintf("%d MT/s", speed)
	}
	return d, true
}

// speed is in one field, or, if that says so, in another.
func (s structure) speed(at, extended int) int {
	n := s.word(at)
	if n == 0xffff {
		return s.double(extended) & 0x7fffffff
	}
	return n
}
