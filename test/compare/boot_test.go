package compare_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestCompareBoot measures how long a machine that is off takes to become a node: with us from the command to its agent's
// arrival, by hand from the start of the same QEMU machine, with the same files, to the agent's first word.
func TestCompareBoot(t *testing.T) {
	testall.Only(t)
	r := newTestbed(t)
	file := r.File("boot.yaml", "name: boot\nisolation: metal\nnodes: 1\n")
	hand, took := r.learn(t, file)
	ours, theirs := samples{took}, samples{hand.boot()}
	for len(ours) < size.boots {
		ours = append(ours, r.create(file))
		r.Run("delete", "boot", "--wait", "--timeout", "5m")
		theirs = append(theirs, hand.boot())
		fmt.Printf("create to agent %.2f s, by hand %.2f s\n", ours[len(ours)-1], theirs[len(theirs)-1])
	}
	results.add(t, row{what: "boot overhead, create to agent", unit: "s", peer: "by hand", ours: ours, theirs: theirs,
		bound: "at most 1.15"})
}

const bootSite = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
  - {name: metal, select: ["substrate = metal"]}
`

// testbed is a rig with a rack of one machine, which is inspected and free.
type testbed struct {
	*rig.Rig
	image string // folder
}

func newTestbed(t *testing.T) testbed {
	image := rig.Image(t)
	r := rig.New(t, "")
	r.Run("images", "import", filepath.Join(filepath.Dir(filepath.Dir(image)), "inspector", "latest"), "--name", "inspector",
		"--data", r.Data)
	r.Site = r.File("site.yaml", bootSite)
	r.Start()
	csv := filepath.Join(t.TempDir(), "rack.csv")
	t.Cleanup(func() { r.Run("rack", "down", "--force") })
	r.Run("rack", "up", "--machines", "1", "--accel", "tcg", "--csv", csv)
	r.Run("machines", "add", "--local", "1", "--wait")
	r.Run("machines", "import", csv)
	r.Run("machines", "inspect", "--all", "--wait", "--timeout", "5m")
	return testbed{r, image}
}

// create makes the cluster and says how many seconds its machine took.
func (y testbed) create(file string) float64 {
	y.Helper()
	begin := time.Now()
	y.Run("create", "-f", file, "--wait", "--timeout", "5m")
	var list struct {
		Items []struct {
			At         time.Time
			Node, Text string
		}
	}
	y.Get(&list, "events")
	for _, e := range list.Items {
		if e.Node != "n1" || e.At.Before(begin) {
			continue
		}
		took := e.At.Sub(begin)
		y.Logf("%6.2f s  %s", took.Seconds(), e.Text) // where the time goes
		if e.Text == "its agent is here" {
			return took.Seconds()
		}
	}
	y.Fatal("no event says that the agent has come")
	return 0
}
