package accelerators

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"muster/internal/protocol"
)

// Query is the command line whose output ParseMemory reads. To answer, the driver speaks with each GPU: one that has
// fallen off the bus is not in the answer, or there is none.
func Query() []string {
	return []string{"nvidia-smi", "--query-gpu=pci.bus_id,memory.total", "--format=csv,noheader,nounits"}
}

// ParseMemory reads the answer to Query: MiB by the GPU's PCI address, as Linux writes it.
func ParseMemory(text string) (map[string]int, error) {
	all := map[string]int{}
	lines := csv.NewReader(strings.NewReader(text))
	lines.TrimLeadingSpace, lines.FieldsPerRecord, lines.LazyQuotes = true, -1, true
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("nvidia-smi: %w", err)
		}
		address, ok := "", false
		if len(fields) == 2 {
			address, ok = busID(fields[0])
		}
		if !ok || len(all) == protocol.MostGPUs {
			return nil, fmt.Errorf("nvidia-smi: %q", short(strings.Join(fields, ", "))) // in its own words
		}
		all[address] = amount(fields[1])
	}
}

// busID turns "00000000:4F:00.0" into "0000:4f:00.0": Linux writes four digits of the domain, and more only where needed.
func busID(text string) (string, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	domain, rest, found := strings.Cut(text, ":")
	number, err := strconv.ParseUint(domain, 16, 32)
	if !found || err != nil || len(rest) != len("4f:00.0") || rest[2] != ':' || rest[5] != '.' {
		return "", false
	}
	for _, at := range []int{0, 1, 3, 4, 6} {
		if !strings.ContainsRune("0123456789abcdef", rune(rest[at])) {
			return "", false
		}
	}
	return fmt.Sprintf("%04x:%s", number, rest), true
}

// amount is a number, or 0 for "[N/A]" and the like.
func amount(text string) int {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
