package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// judging is a site that refuses slow nodes on this host, too. The bounds are wide, since all nodes and whatever else
// the host does share its CPUs.
const judging = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
acceptance: {judge: all, passes: 4, deviations: 1, slow_below: 30%, network_slow_below: 1%}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
`

func TestASlowNodeIsReplacedLikeADeadOne(t *testing.T) {
	testall.Only(t)
	r := rig.New(t, "")
	r.Site = r.File("site.yaml", judging)
	r.Start()
	r.Run("machines", "add", "--local", "7", "--wait")
	r.Run("create", "-f", r.File("fast.yaml", "name: fast\nnodes: 2\n"), "--wait")
	var c cluster
	for _, nodes := range []string{"3", "4"} { // one after the other, so that they don't measure each other
		r.Run("scale", "fast", nodes, "--wait")
	}
	r.Get(&c, "get", "fast")
	if events := r.Run("events", "fast"); !regexp.MustCompile(
		`n4 .*ready.* passed \d+ checks and its acceptance in .*memory bandwidth [0-9.]+ GB/s, compute .*, round trip to the head`).MatchString(events) {
		t.Errorf("no acceptance in\n%s", events)
	}

	before := groups(c.ID)
	if len(before) == 0 {
		t.Skip("a slow node is not tested: this host has no control groups that limit CPUs")
	}
	r.Run("scale", "fast", "5")
	slowDown(r, c.ID, before)
	var machine string
	r.Eventually(2*time.Minute, "the slow node's machine is set apart", func() bool {
		found := regexp.MustCompile(`(?m)^(local-\d+) .* quarantined .*(memory bandwidth|compute) \S+ \S+; its class has \S+ \(median of \d+ passes\)`).FindStringSubmatch(r.Run("machines", "list"))
		if found != nil {
			machine = found[1]
		}
		return found != nil
	})
	health := r.Run("machines", "health", machine)
	for _, want := range []string{`fast/n5 again [0-9]`, `fast/n5 again \(test 2\) `, `fast/n5 slow \(test 3\) .*its class has`} {
		if !regexp.MustCompile(want).MatchString(strings.Join(strings.Fields(health), " ")) {
			t.Errorf("no %q in\n%s", want, health)
		}
	}
	r.Eventually(2*time.Minute, "another machine has taken the node's place", func() bool {
		r.Get(&c, "get", "fast")
		return c.Phase == "ready" && len(c.Nodes) == 6 && c.Nodes[5].Name == "n5"
	})
	// Where much else runs, that one may be measured as slow too, and the first be back in service before the next comes.
	next := regexp.MustCompile(`(?s)n5 +gone: [^\n]*(?:memory bandwidth|compute) .*?n5 +comes on machine (\S+)`).FindStringSubmatch(r.Run("events", "fast"))
	if next == nil || next[1] == machine {
		t.Errorf("after %s: %q", machine, next)
	}
	if out := r.Run("ssh", "fast", "--", "srun", "-w", "n5", "hostname"); out != "n5\n" {
		t.Errorf("%q", out)
	}
	r.Run("delete", "fast", "--wait")
	r.NothingLeft()
}

// groups are the control groups of a cluster's nodes that limit CPUs.
func groups(cluster string) []string {
	first, _ := filepath.Glob("/sys/fs/cgroup/cpu/*." + cluster + ".*")
	second, _ := filepath.Glob("/sys/fs/cgroup/*." + cluster + ".*/cpu.max")
	for i := range second {
		second[i] = filepath.Dir(second[i])
	}
	return append(first, second...)
}

// slowDown gives the first node that comes a twentieth of a CPU, as a fault of its machine would.
func slowDown(r *rig.Rig, cluster string, before []string) {
	r.Helper()
	r.Until("the new node has a control group", func() bool {
		for _, group := range groups(cluster) {
			if !slices.Contains(before, group) && limitCPU(group, 5000) {
				return true
			}
		}
		return false
	})
}

// limitCPU gives a control group so many µs of CPU time in 100 ms; false: it has gone, or is none of CPUs.
func limitCPU(group string, quota int) bool {
	return os.WriteFile(filepath.Join(group, "cpu.cfs_quota_us"), []byte(strconv.Itoa(quota)), 0) == nil ||
		os.WriteFile(filepath.Join(group, "cpu.max"), fmt.Appendf(nil, "%d 100000", quota), 0) == nil
}
