package inspection

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory/shapes"
)

// told are the programs of a machine of a shape.
type told struct{ lspci string }

func (p told) Run(_ context.Context, argv ...string) ([]byte, error) {
	switch argv[0] {
	case "lspci":
		return []byte(p.lspci), nil
	case "smartctl":
		return []byte("{}"), nil
	}
	return nil, errors.New(argv[0] + ": not found")
}

// inMemory is a directory for thousands of small files, which a disk would take minutes for.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "muster-shape-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestMachinesOfAllShapesAreFoundAsTheyAre(t *testing.T) {
	for _, s := range shapes.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			root := inMemory(t)
			must(t, shapes.Write(root, s.Facts))
			m := newMachine(Options{Root: root, Tools: told{shapes.LSPCI(s.Facts)}, LinkUp: func(string) error {
				return nil
			}}, io.Discard)
			got := m.facts(t.Context(), m.disks(t.Context()))
			got.Arch = s.Facts.Arch // this program's
			if diff := cmp.Diff(s.Facts, got); diff != "" {
				t.Error(diff)
			}
			body, err := enrolment(got)
			if err != nil || len(body) > 2*enrolLimit {
				t.Errorf("an enrolment of %d bytes: %v", len(body), err)
			}
		})
	}
}
