package inspection

import (
	"context"
	"strings"
	"time"

	"muster/internal/inventory"
)

// nameDevices asks lspci what the devices are called; without lspci they have no names.
func (m *machine) nameDevices(ctx context.Context, devices []inventory.Device) {
	if len(devices) == 0 {
		return
	}
	out, _ := m.run(ctx, 10*time.Second, "lspci", "-Dmm")
	names := pciNames(string(out))
	for i := range devices {
		devices[i].Name = names[devices[i].PCI]
	}
}

// pciNames reads lspci -Dmm: an address and quoted words for class, vendor and device (lspci(8), -mm).
func pciNames(text string) map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(text) {
		words := quotedWords(line)
		if len(words) >= 4 {
			names[words[0]] = strings.TrimSpace(words[2] + " " + words[3])
		}
	}
	return names
}

// quotedWords divides a line as a shell would: blanks divide, quotes hold together, a backslash spares the next character.
func quotedWords(line string) []string {
	var words []string
	var word strings.Builder
	started, quoted := false, false
	end := func() {
		if started {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, started = !quoted, true
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			started = true
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			end()
		default:
			word.WriteByte(c)
			started = true
		}
	}
	end()
	return words
}
