package hardware

import (
	"errors"
	"os"

	"muster/internal/inventory"
)

// Host tells what this host is, its name included.
func Host() (inventory.Facts, error) {
	facts := Read("/")
	if facts.MemoryMiB == 0 {
		return facts, errors.New("inspect this host: /proc/meminfo tells of no memory; is /proc mounted?")
	}
	name, err := os.Hostname()
	facts.Host = name
	return facts, err
}
