package power_test

import (
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"muster/internal/netns"
)

// within runs do inside a namespace.
func within(t *testing.T, space string, do func() error) {
	t.Helper()
	if err := netns.Do(space, do); err != nil {
		t.Fatal(err)
	}
}

// up brings a link up, with an address if there is one.
func up(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if address != "" {
		parsed, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(link, parsed); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

func openNamespace(t *testing.T, path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	t.Cleanup(func() { file.Close() })
	return int(file.Fd()), nil
}
