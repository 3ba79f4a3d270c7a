package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// ranks is an MPI program that says where each rank is and what all of them are in sum.
const ranks = `#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) {
  char host[MPI_MAX_PROCESSOR_NAME];
  int rank, size, sum, length;
  MPI_Init(&c, &v);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%s has rank %d of %d, sum %d\n", host, rank, size, sum);
  return MPI_Finalize();
}
`

// TestAPlainClusterHasAllThatItsUserWouldOtherwiseSetUp goes through docs/user-built-clusters.md: the rows of its first
// table are the names of the subtests.
func TestAPlainClusterHasAllThatItsUserWouldOtherwiseSetUp(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "8", "--wait")
	r.Run("create", "-f", r.File("own.yaml", "name: own\nnodes: 3\nsoftware: {scheduler: none}\n"), "--wait")
	// Nothing is waited for from here on: it is there when create returns.
	sumsOn(r, "n1", "n2", "n3")
	if out := r.Run("describe", "own"); !regexp.MustCompile(`scheduler +none`).MatchString(out) {
		t.Error(out)
	}

	for _, step := range []struct{ name, command, want string }{
		{"machines", "cat /etc/muster/hostfile | grep -c slots=", `^3\n$`},
		{"an operating system, the same on all",
			"for n in head n1 n2 n3; do ssh $n sha256sum /etc/os-release; done | sort -u | wc -l", `^1\n$`},
		{"a private network", "for n in head n1 n2 n3; do ping -c1 -W5 $n >/dev/null && echo reached; done", `^(reached\n){4}$`},
		{"host names", "for n in head n1 n2 n3; do ssh $n hostname; done", `^head\nn1\nn2\nn3\n$`},
		{"/etc/hosts", "for n in head n1 n2 n3; do ssh $n getent hosts head n1 n2 n3; done | sort -u | awk '{print $2}' | xargs",
			`^head n1 n2 n3\n$`},
		{"accounts", "for n in head n1 n2 n3; do ssh $n id; done | sort -u | wc -l", `^1\n$`},
		{"keys between nodes", "ssh n1 ssh n2 ssh n3 ssh head hostname; ssh n3 'echo ${SSH_AUTH_SOCK:-no agent}'",
			`^head\nno agent\n$`},
		{"known hosts", "ssh -o StrictHostKeyChecking=yes n2 true && ls ~/.ssh/known_hosts 2>/dev/null || echo nobody was asked",
			`^nobody was asked\n$`},
		{"shared storage", "ssh n1 'echo shared > ~/file' && ssh n2 cat file && ssh n3 cat file", `^shared\nshared\n$`},
		{"a firewall", "ssh n1 iperf3 -s -1 -p 45678 >/dev/null & for i in $(seq 100); do ssh n2 iperf3 -c n1 -p 45678 -n 1K " +
			">/dev/null 2>&1 && echo open && break; sleep 0.2; done; wait", `^open\n$`},
		{"an MPI", "cd /tmp && for n in head n1 n2 n3; do ssh $n mpirun --version; done | sort -u | grep -c 'Open MPI'", `^1\n$`},
		{"MPI aware of the nodes", "mpirun --map-by node -n 3 hostname 2>/dev/null | sort | xargs", `^n1 n2 n3\n$`},
		{"a resource manager", "for n in head n1 n2 n3; do ssh $n pgrep -l 'munged|slurm' || echo none; done", `^(none\n){4}$`},
	} {
		t.Run(step.name, func(t *testing.T) {
			if out := r.In(t).Run("ssh", "own", "--", step.command); !regexp.MustCompile(step.want).MatchString(out) {
				t.Errorf("%s:\n%s", step.command, out)
			}
		})
	}

	t.Run("a queue that grows with its jobs is refused", func(t *testing.T) {
		got := r.In(t).Muster("create", "-f",
			r.File("elastic.yaml", "name: elastic\nsoftware: {scheduler: none}\nqueues: [{name: cpu, min: 1, max: 2}]\n"))
		if got.Code != 2 || !strings.Contains(got.Err, "needs a scheduler") {
			t.Error(got)
		}
	})
	t.Run("another cluster's key does not open", func(t *testing.T) {
		r := r.In(t)
		r.Run("create", "-f", r.File("other.yaml", "name: other\nnodes: 1\nsoftware: {scheduler: none}\n"), "--wait")
		key := r.Run("ssh", "own", "--", "cat ~/.ssh/id_muster")
		out := r.Run("ssh", "other", "--", "umask 077; cat > brought <<'END'\n"+key+"END\n"+
			"ssh -F none -i brought -o IdentitiesOnly=yes -o BatchMode=yes n1 hostname 2>&1; ssh n1 hostname")
		if !strings.Contains(out, "Permission denied") || !strings.HasSuffix(out, "\nn1\n") {
			t.Errorf("with the key of another cluster, then with its own:\n%s", out)
		}
		r.Run("delete", "other", "--wait")
	})

	t.Run("the host file follows", func(t *testing.T) {
		r := r.In(t)
		r.Run("scale", "own", "4", "--wait")
		sumsOn(r, "n1", "n2", "n3", "n4")

		lost := r.Node("own", "n2")
		lost.KillAll()
		replaced(r, "own", "n2", lost.ID)
		r.Until("the new n2 is in the host file", func() bool { return slices.Contains(listed(r), "n2") })
		sumsOn(r, "n1", "n2", "n3", "n4")

		// What runs on a node that goes is not waited for, which plan says.
		r.Run("ssh", "own", "--", "ssh n4 'nohup sleep 3600 >/dev/null 2>&1 &'")
		fewer := r.File("fewer.yaml", "name: own\nnodes: 3\nsoftware: {scheduler: none}\n")
		if plan := r.Run("plan", "-f", fewer); !strings.Contains(plan, "at once, whatever runs on them") {
			t.Error(plan)
		}
		r.Run("apply", "-f", fewer, "--wait")
		sumsOn(r, "n1", "n2", "n3")
	})
	t.Run("a pause keeps home and comes back with the host file", func(t *testing.T) {
		r := r.In(t)
		r.Run("pause", "own", "--wait")
		r.Run("resume", "own", "--wait")
		if out := r.Run("ssh", "own", "--", "cat file"); out != "shared\n" {
			t.Error(out)
		}
		sumsOn(r, "n1", "n2", "n3")
	})
	r.Run("delete", "own", "--wait")
	r.NothingLeft()
	c.Stop()
}

// listed are the nodes of the host file.
func listed(r *rig.Rig) []string {
	r.Helper()
	return strings.Fields(r.Run("ssh", "own", "--", "sed -n 's/ slots=.*//p' /etc/muster/hostfile"))
}

// sumsOn runs an MPI program as a user does who says nothing of nodes. It must be on these, and no others.
func sumsOn(r *rig.Rig, nodes ...string) {
	r.Helper()
	if got := listed(r); !slices.Equal(got, nodes) {
		r.Errorf("the host file names %v, want %v", got, nodes)
	}
	out := r.Run("ssh", "own", "--", "[ -x a.out ] || mpicc -x c - <<'END'\n"+ranks+"END\nmpirun ./a.out")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	sum := fmt.Sprintf(" of %d, sum %d", len(lines), len(lines)*(len(lines)-1)/2)
	var on []string
	for _, line := range lines {
		if !strings.HasSuffix(line, sum) {
			r.Errorf("no %q in %q", sum, line)
		}
		on = append(on, strings.Fields(line)[0])
	}
	slices.Sort(on)
	if on = slices.Compact(on); !slices.Equal(on, nodes) {
		r.Errorf("MPI ran on %v, want %v:\n%s", on, nodes, out)
	}
}

// replaced waits until another node of that name is ready.
func replaced(r *rig.Rig, name, node, lost string) {
	r.Helper()
	r.Eventually(2*time.Minute, node+" is replaced", func() bool {
		var c struct {
			Nodes []struct{ ID, Name, Phase string }
		}
		r.Get(&c, "get", name)
		return slices.ContainsFunc(c.Nodes, func(n struct{ ID, Name, Phase string }) bool {
			return n.Name == node && n.ID != lost && n.Phase == "ready"
		})
	})
}
