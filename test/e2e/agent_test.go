package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestTheAgentOfTheHostMayDie: nodes and their jobs do not notice, what is asked meanwhile is done by the next agent, and none is
// left when the controller has gone, however it went.
func TestTheAgentOfTheHostMayDie(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 2\n"), "--wait")
	r.Run("ssh", "hello", "--", "sbatch -N2 --wrap 'srun -l sh -c \"while [ ! -e ~/enough ]; do sleep 0.2; done; echo untouched\"'")
	for _, nodes := range []string{"3", "2", "3"} {
		agents := c.Agents()
		if len(agents) != 1 {
			t.Fatalf("the host has the agents %v", agents)
		}
		if err := syscall.Kill(agents[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.Run("scale", "hello", nodes, "--wait")
		if after := c.Agents(); len(after) != 1 || after[0] == agents[0] {
			t.Errorf("after agent %d: %v", agents[0], after)
		}
	}
	r.Run("ssh", "hello", "--", "touch ~/enough")
	r.Until("the job has ended as if nothing had been", func() bool {
		return strings.Count(r.Run("ssh", "hello", "--", "cat slurm-*.out"), "untouched") == 2
	})
	gone := func(pids []int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if len(pids) == 1 && syscall.Kill(pids[0], 0) != nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("of the agents %v one is left", pids)
			}
		}
	}
	agents := c.Agents()
	c.Kill()
	gone(agents)
	c = r.Start()
	r.Run("delete", "hello", "--wait")
	agents = c.Agents()
	c.Stop()
	gone(agents)
}
