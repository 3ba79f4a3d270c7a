package e2e_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

// loginHost is an external cluster of the test's own: OpenSSH's sshd beside Slurm, on the head of a cluster, with accounts and a
// configuration that Muster has no hand in. Connections reach it through a listener of the test's.
type loginHost struct {
	*rig.Rig
	pid     string // of a process of the head
	address string
	stop    func()
}

// inside runs a shell script as root on the login host.
func (h loginHost) inside(script string) string {
	h.Helper()
	out, err := exec.Command("nsenter", "-t", h.pid, "-a", "sh", "-ec", script).CombinedOutput()
	if err != nil {
		h.Fatalf("%s: %v %s", script, err, out)
	}
	return string(out)
}

func newLoginHost(r *rig.Rig, cluster string) loginHost {
	r.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	h := loginHost{r, strconv.Itoa(r.Node(cluster, "head").PID), l.Addr().String(), func() { _ = l.Close() }}
	r.Cleanup(h.stop)
	h.inside(`mkdir -p /run/arc && cd /run/arc && ssh-keygen -q -t ed25519 -N '' -f host_key
		printf '%s\n' 'HostKey /run/arc/host_key' 'TrustedUserCAKeys /run/arc/muster.pub' 'AuthorizedKeysFile none' \
			'PasswordAuthentication no' 'PermitRootLogin no' 'PidFile none' > sshd_config
		for account in muster hpc; do useradd -m -s /bin/bash -p '*' $account; done`)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			file, err := conn.(*net.TCPConn).File()
			if err == nil {
				sshd := exec.Command("nsenter", "-t", h.pid, "-a", "/usr/sbin/sshd", "-i", "-f", "/run/arc/sshd_config")
				sshd.Stdin, sshd.Stdout = file, file
				if sshd.Start() == nil {
					go func() { _ = sshd.Wait() }() // it ends with its connection
				}
				_ = file.Close()
			}
			_ = conn.Close()
		}
	}()
	return h
}

func TestAnExternalClustersOwnBatchSystemIsBehindTheSameDoor(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Flags = []string{"--ssh", "127.0.0.1:0"}
	r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	r.Run("create", "hpc", "--nodes", "1", "--wait")
	h := newLoginHost(r, "hpc")
	d := newDoor(r)
	keys := filepath.Join(t.TempDir(), "arc.keys")
	if err := os.WriteFile(keys, []byte("# arc\narc.example.org "+h.inside("cat /run/arc/host_key.pub")), 0o600); err != nil {
		t.Fatal(err)
	}
	register := []string{"clusters", "register", "arc", "--login", h.address, "--host-key", keys, "--as", "same", "--project",
		"default=main", "--wait"}
	wants := func(got rig.Result, code int, words ...string) {
		t.Helper()
		for _, word := range words {
			if got.Code != code || !strings.Contains(got.Out+got.Err, word) {
				t.Errorf("exit %d, without %q: %s%s", got.Code, word, got.Out, got.Err)
			}
		}
	}

	wants(r.Muster(register...), 1, "does not let account muster in", "muster clusters ca")
	var ca apiv1.ExternalClusterAuthority
	r.Get(&ca, "clusters", "ca")
	h.inside("echo '" + ca.PublicKey + "' > /run/arc/muster.pub")
	wants(r.Muster("clusters", "set", "arc", "--wait"), 0, "open", "Slurm 2", "main")
	var arc apiv1.ExternalCluster
	r.Get(&arc, "clusters", "show", "arc")
	if q := arc.Queues; len(q) != 1 || q[0].Name != "main" || !q[0].Up || q[0].Nodes != 1 || q[0].Free+q[0].Used != 1 {
		t.Errorf("%+v", q)
	}
	wants(r.Muster("list"), 0, "hpc", "arc", "Slurm 2", "main")
	wants(r.Muster(register...), 5, "exists already")

	d.expect(rig.Result{Out: "admin\n", Err: "oops\n", Code: 3}, "ssh", "arc@gw", "id -un; echo oops >&2; exit 3")
	d.expect(rig.Result{Out: "n1\n"}, "ssh", "default/arc@gw", "srun -p main hostname")
	t.Run("it is measured as one's own are", func(t *testing.T) { measureExternal(r.In(t), h) })
	r.Run("clusters", "set", "arc", "--as", "hpc", "--wait")
	d.expect(rig.Result{Out: "hpc\n"}, "ssh", "arc@gw", "id -un")
	accounts := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(accounts, []byte("# who is who\nadmin = hpc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Run("clusters", "set", "arc", "--as", "@"+accounts, "--wait")
	d.expect(rig.Result{Out: "hpc\n"}, "ssh", "arc@gw", "id -un")
	wants(d.do("ssh", "-J", "gw", "arc", "true"), 255, "")

	r.Run("users", "add", "bea")
	r.Run("projects", "add", "bio", "--owner", "bea")
	r.Run("clusters", "register", "closed", "--login", h.address, "--host-key", keys, "--as", "same", "--project", "bio",
		"--wait")
	wants(d.do("ssh", "closed@gw", "id -un"), 255, `admin has no cluster "closed"`)

	h.stop()
	wants(r.Muster("clusters", "set", "arc", "--wait"), 1, "connection refused", "main")
	wants(r.Muster("list"), 0, "silent", "connection refused", "main")
	wants(d.do("ssh", "arc@gw", "true"), 255, "external cluster arc cannot be entered", "connection refused")
	r.Run("clusters", "unregister", "arc")
	wants(d.do("ssh", "arc@gw", "true"), 255, `admin has no cluster "arc"`)
	r.Run("clusters", "unregister", "closed")
	r.Run("delete", "hpc", "--wait")
	r.NothingLeft()
}

// measureExternal runs a benchmark on a registered cluster: as jobs of its person, through its own door, and nothing is left
// there.
func measureExternal(r *rig.Rig, h loginHost) {
	wants := func(got rig.Result, code int, word string) {
		r.Helper()
		if got.Code != code || !strings.Contains(got.Out+got.Err, word) {
			r.Errorf("exit %d, without %q: %s%s", got.Code, word, got.Out, got.Err)
		}
	}
	wants(r.Muster("bench", "run", "arc", "--suite", "stream"), 2, "queue main of external cluster arc has 1 nodes: say on how many")
	wants(r.Muster("bench", "run", "arc", "--suite", "stream", "--nodes", "1", "--rounds", "2", "--wait"), 0,
		"of suite stream on cluster arc is ok")
	var runs struct {
		Items []struct{ ID string }
	}
	r.Get(&runs, "bench", "runs", "arc")
	shown := r.Run("bench", "show", runs.Items[0].ID, "--samples")
	for _, want := range []string{"n1 on arc:n1", "triad", "cpu "} {
		if !strings.Contains(shown, want) {
			r.Errorf("there is no %q in\n%s", want, shown)
		}
	}
	id := strings.Fields(r.Run("bench", "run", "arc", "--suite", "stream", "--nodes", "1"))[0]
	r.Until("its job is there", func() bool { return strings.Contains(h.inside("squeue -h -o %j"), "muster-"+id) })
	r.Run("bench", "cancel", id)
	r.Until("it is cancelled", func() bool { return strings.Contains(r.Run("bench", "show", id), " is cancelled") })
	if left := h.inside("squeue -h; ls -A /home/admin"); strings.Contains(left, "muster") {
		r.Errorf("left there: %s", left)
	}
}
