package rig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Node is a local node as its host sees it, for what a test does to it behind the controller's back.
type Node struct {
	rig     *Rig
	Cluster string // ID
	ID      string
	PID     int // of its first process, the agent
	groups  map[string]string
}

// Node finds the running boot of a node.
func (r *Rig) Node(cluster, name string) Node {
	r.Helper()
	var c struct {
		ID    string
		Nodes []struct{ ID, Name string }
	}
	r.Get(&c, "get", cluster)
	for _, n := range c.Nodes {
		if n.Name != name {
			continue
		}
		if found, ok := r.Find(c.ID, n.ID); ok {
			return found
		}
	}
	r.Fatalf("node %s of cluster %s does not run on this host", name, cluster)
	return Node{}
}

// Find finds the running boot of a node by its ID, if there is one now.
func (r *Rig) Find(cluster, id string) (Node, bool) {
	states, _ := filepath.Glob(filepath.Join(r.Data, "local/runc/*"+cluster+"."+id+".*/state.json"))
	for _, path := range states {
		var state struct {
			PID    int               `json:"init_process_pid"`
			Groups map[string]string `json:"cgroup_paths"`
		}
		text, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(text, &state) == nil && syscall.Kill(state.PID, 0) == nil {
			return Node{r, cluster, id, state.PID, state.Groups}, true
		}
	}
	return Node{}, false
}

// processes are all of the node's.
func (n Node) processes() []int {
	var pids []int
	for _, dir := range n.groups {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
		if len(pids) > 0 {
			break
		}
	}
	return pids
}

// KillAgent kills the agent, and with it what it is the first process of.
func (n Node) KillAgent() { n.must(syscall.Kill(n.PID, syscall.SIGKILL)) }

// KillAll kills every process of the node, the agent last.
func (n Node) KillAll() {
	for _, pid := range n.processes() {
		if pid != n.PID {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	n.KillAgent()
}

// Freeze stops the node where it stands, as a kernel that hangs does; Thaw lets it go on.
func (n Node) Freeze() { n.freezer("FROZEN", "1") }

// Thaw ends Freeze.
func (n Node) Thaw() { n.freezer("THAWED", "0") }

func (n Node) freezer(v1, v2 string) {
	n.rig.Helper()
	if dir := n.groups["freezer"]; dir != "" {
		n.must(os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(v1), 0))
		return
	}
	n.must(os.WriteFile(filepath.Join(n.groups[""], "cgroup.freeze"), []byte(v2), 0))
}

// Cut takes the node's cable off the cluster's network.
func (n Node) Cut() {
	n.rig.Helper()
	sum := sha256.Sum256([]byte(n.ID))
	out, err := exec.Command("nsenter", "--net="+filepath.Join(n.rig.Data, "local/clusters", n.Cluster, "netns"),
		"ip", "link", "set", "v-"+hex.EncodeToString(sum[:6]), "down").CombinedOutput()
	if err != nil {
		n.rig.Fatalf("cut node %s: %v: %s", n.ID, err, out)
	}
}

// Lose takes a program away from the node, and kills it where it runs.
func (n Node) Lose(program string) {
	n.rig.Helper()
	n.must(os.Remove(filepath.Join("/proc", strconv.Itoa(n.PID), "root", program)))
	for _, pid := range n.processes() {
		name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		if string(bytes.TrimSpace(name)) == filepath.Base(program) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Inside runs a shell command as the node's root, in all of its namespaces, and returns what it printed.
func (n Node) Inside(command string) string {
	n.rig.Helper()
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(n.PID), "-a", "--", "bash", "-c", command).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		n.must(err)
	}
	return string(out)
}

func (n Node) must(err error) {
	n.rig.Helper()
	if err != nil {
		n.rig.Fatalf("node %s: %v", n.ID, err)
	}
}

// Spin is a recipe that needs no program and takes seconds.
const Spin = `recipe: spin
about: How long each node takes to count
seconds: 3
run: |
  srun -N {{nodes}} -n {{nodes}} bash -c 't=$EPOCHREALTIME; for ((i = 0; i < 100000; i++)); do :; done
  echo $SLURMD_NODENAME $((${EPOCHREALTIME/./} - ${t/./}))'
read:
  - {quantity: count, lines: '^(?P<node>\S+) (?P<value>\d+)$', unit: µs, better: lower}
`

// AddRecipe gives the site a recipe of its own.
func (r *Rig) AddRecipe(name, text string) {
	r.Helper()
	folder := filepath.Join(r.Data, "recipes")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// Undisturbed lets nodes see no CPU time that the hypervisor below this host gives to others: where that is much, no round
// counts.
func (r *Rig) Undisturbed(cluster string, nodes ...string) {
	r.Helper()
	for _, name := range nodes {
		out, err := exec.Command("nsenter", "--user", "--mount", "--setuid", "0", "--setgid", "0", "--target",
			strconv.Itoa(r.Node(cluster, name).PID), "sh", "-c",
			"echo 'cpu 1 0 0 1 0 0 0 0 0 0' >/run/stat && mount --bind /run/stat /proc/stat").CombinedOutput()
		if err != nil {
			r.Fatalf("node %s: %v: %s", name, err, out)
		}
	}
}
