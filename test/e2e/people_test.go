package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/test/rig"
)

// stays opens a session on a cluster that ends by nothing of its own, and returns when it has ended.
func stays(r *rig.Rig, cluster string) <-chan struct{} {
	r.Helper()
	c := exec.Command(r.Binary, "ssh", cluster, "--", "echo in; sleep 3600")
	c.Env = append(os.Environ(), "MUSTER_DATA="+r.Data, "MUSTER_URL=", "MUSTER_TOKEN="+r.Token)
	out, err := c.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Process.Kill() })
	if _, err := out.Read(make([]byte, 3)); err != nil {
		r.Fatalf("the session does not begin: %v", err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	return ended
}

// ends waits for a session's end, and tells how long it took.
func ends(r *rig.Rig, why string, session <-chan struct{}) {
	r.Helper()
	began := time.Now()
	select {
	case <-session:
		r.Logf("%s: the session ended after %.1f s", why, time.Since(began).Seconds())
	case <-time.After(time.Minute): // 5 s are promised; this host may be busy
		r.Errorf("%s, and the session goes on", why)
	}
}

// runs says whether a process of a command is on this host, in whichever node.
func runs(command string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, _ := os.ReadFile(file) // it may have ended
		if strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " ")) == command {
			return true
		}
	}
	return false
}

func TestTwoProjectsShareASiteAndNothingElse(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	people := map[string]*rig.Rig{}
	for _, name := range []string{"olga", "mia", "bert", "bea"} {
		r.Run("users", "add", name)
		people[name] = r.As(strings.TrimSpace(r.Run("tokens", "add", "test", "--person", name)))
	}
	olga, mia, bert, bea := people["olga"], people["mia"], people["bert"], people["bea"]
	r.Run("projects", "add", "aero", "--owner", "olga")
	r.Run("projects", "add", "bio", "--owner", "bert")
	olga.Run("projects", "grant", "aero", "mia", "member")
	bert.Run("projects", "grant", "bio", "bea", "member")
	mia.Run("projects", "join", "aero")
	bea.Run("projects", "join", "bio")
	olga.Run("create", "cfd", "--nodes", "1")
	bert.Run("create", "lab", "--nodes", "1", "--wait")
	r.Until("cfd is ready", func() bool {
		var c struct{ Phase string }
		olga.Get(&c, "get", "cfd")
		return c.Phase == "ready"
	})

	t.Run("a member has an account of their own, and its files", func(t *testing.T) {
		mia := mia.In(t)
		var site struct{ Identity string }
		mia.Get(&site, "whoami")
		out := mia.Run("ssh", "cfd", "--", "id -un; id -u; echo mine > f; stat -c '%U %u %n' $PWD f; srun id -u")
		if want := "mia\n10002\nmia 10002 /home/mia\nmia 10002 f\n10002\n"; out != want || site.Identity != "mia" {
			t.Errorf("%q, not %q", out, want)
		}
	})
	t.Run("nobody sees the other's", func(t *testing.T) {
		mia, r := mia.In(t), r.In(t)
		for _, verb := range []string{"list", "events", "projects", "quota", "cost", "audit", "calendar", "snapshots list"} {
			if out := mia.Run(strings.Fields(verb)...); rig.Names(out, "lab") || rig.Names(out, "bio") ||
				rig.Names(out, "bert") {
				t.Errorf("muster %s:\n%s", verb, out)
			}
		}
		for line, want := range map[string]rig.Result{
			"get lab": {Code: 6}, "ssh bio/lab -- id": {Code: 6}, "delete bio/lab": {Code: 6}, "projects members bio": {Code: 6},
			"machines list": {Code: 1, Err: "mia may not list machines (it takes an operator of the site)"},
			"users list":    {Code: 1, Err: "it takes an operator"}, "status": {Code: 1, Err: "it takes an operator"},
			"projects grant aero bea owner": {Code: 1,
				Err: "mia may not give a person a role in a project (it takes a project's owner"},
		} {
			if got := mia.Muster(strings.Fields(line)...); got.Code != want.Code || !strings.Contains(got.Err, want.Err) {
				t.Errorf("muster %s: %+v", line, got)
			}
		}
		if out := r.Run("list"); !strings.Contains(out, "cfd   aero") || !strings.Contains(out, "lab   bio") {
			t.Error(out)
		}
		if got := r.Muster("ssh", "lab", "--", "id"); got.Code != 1 ||
			!strings.Contains(got.Err, "it takes a project's owner or member") {
			t.Errorf("an operator gets in without being in the project: %+v", got)
		}
	})
	t.Run("from a node there is no way to another cluster or to the controller", func(t *testing.T) {
		r := r.In(t)
		from, to := r.Node("cfd", "head"), r.Node("lab", "head")
		var lab cluster
		bert.In(t).Get(&lab, "get", "lab")
		address := lab.Nodes[0].Address
		go to.Inside(`timeout 60 perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalPort => 7777, Listen => 9, ReuseAddr => 1); while ($c = $s->accept) { print $c "labs\n"; close $c }'`)
		ask := func(n rig.Node, to string, port string) string {
			return n.Inside(fmt.Sprintf("timeout 3 bash -c 'head -1 < /dev/tcp/%s/%s'", to, port))
		}
		r.Until("lab's own nodes reach it", func() bool { return ask(r.Node("lab", "n1"), address, "7777") == "labs\n" })
		if got := ask(from, address, "7777"); strings.Contains(got, "labs") {
			t.Error("cfd's root reaches lab's head")
		}
		_, port, _ := strings.Cut(strings.TrimPrefix(controller.URL, "http://"), ":")
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addresses {
			if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil {
				out := from.Inside(fmt.Sprintf("curl -sS -m 3 http://%s/healthz 2>&1",
					net.JoinHostPort(network.IP.String(), port)))
				if !strings.Contains(out, "curl: (") {
					t.Errorf("cfd's root reaches the controller at %s: %s", network.IP, out)
				}
			}
		}
		if out := olga.In(t).Run("ssh", "cfd", "--", "ls /run/muster/controllers 2>&1; true"); !strings.Contains(out,
			"Permission denied") {
			t.Errorf("a user sees the agents' sockets: %s", out)
		}
		out := from.Inside("curl -sSk -m 60 --unix-socket /run/muster/controllers/*.sock https://controller/v1/clusters " +
			"2>&1; true")
		if t.Logf("the agents' socket says: %s", out); !strings.Contains(out, "certificate required") &&
			!strings.Contains(out, "404") && !strings.Contains(out, "401") {
			t.Errorf("the agents' socket answers anybody: %s", out)
		}
	})

	key := filepath.Join(t.TempDir(), "id")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	mia.Run("keys", "add", key+".pub")
	opens := func() bool { // by olga's tunnel, so that it is the key alone which opens
		c := exec.Command("ssh", "-F", "/dev/null", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o",
			"UserKnownHostsFile=/dev/null",
			"-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ProxyCommand="+r.Binary+" tunnel cfd", "mia@cfd", "id -un")
		c.Env = append(os.Environ(), "MUSTER_DATA="+r.Data, "MUSTER_URL=", "MUSTER_TOKEN="+olga.Token)
		out, _ := c.Output()
		return string(out) == "mia\n"
	}
	r.Until("the key opens", opens)

	t.Run("who leaves a project is out within seconds, and what they made stays", func(t *testing.T) {
		olga, mia := olga.In(t), mia.In(t)
		session := stays(mia, "cfd")
		loop, job := fmt.Sprintf("sleep 4242.%d", os.Getpid()), fmt.Sprintf("sleep 4243.%d", os.Getpid())
		mia.Run("ssh", "cfd", "--", "setsid nohup sh -c 'trap \"\" TERM HUP; while :; do "+loop+
			"; done' >/dev/null 2>&1 </dev/null & sbatch -o none --wrap='"+job+"'")
		olga.Until("the loop and the job run", func() bool { return runs(loop) && runs(job) })
		olga.Run("projects", "revoke", "aero", "mia")
		ends(olga, "the membership has ended", session)
		olga.Eventually(30*time.Second, "only the job goes on", func() bool { return !runs(loop) })
		if !runs(job) {
			t.Error("the job has ended")
		}
		olga.Eventually(30*time.Second, "the key opens nothing", func() bool { return !opens() })
		if got := mia.Muster("ssh", "cfd", "--", "id"); got.Code != 6 {
			t.Errorf("%+v", got)
		}
		if out := olga.Run("ssh", "cfd", "--", "stat -c %u /home/mia"); out != "10002\n" {
			t.Errorf("the files are %s", out)
		}
		olga.Run("projects", "grant", "aero", "mia", "member")
		mia.Run("projects", "join", "aero")
		olga.Until("the key opens again", opens)
		if out := mia.Run("ssh", "cfd", "--", "scancel -u mia; cat f"); out != "mine\n" {
			t.Error(out)
		}
	})
	t.Run("a cluster's file says who of the project comes in", func(t *testing.T) {
		olga, mia := olga.In(t), mia.In(t)
		session := stays(mia, "cfd")
		olga.Run("apply", "-f", olga.File("few.yaml", "name: cfd\nnodes: 1\naccess: {users: [olga]}\n"), "--wait")
		ends(olga, "the file names others", session)
		olga.Eventually(30*time.Second, "the key opens nothing", func() bool { return !opens() })
		if got := mia.Muster("ssh", "cfd", "--", "id"); got.Code != 1 || !strings.Contains(got.Err, "access.users") {
			t.Errorf("%+v", got)
		}
		olga.Run("apply", "-f", olga.File("all.yaml", "name: cfd\nnodes: 1\naccess: {users: [olga, mia]}\n"), "--wait")
		olga.Until("the key opens again", opens)
	})
	t.Run("who is disabled is let in nowhere", func(t *testing.T) {
		r, bea := r.In(t), bea.In(t)
		session := stays(bea, "lab")
		r.Run("users", "disable", "bea")
		ends(r, "the person is disabled", session)
		if got := bea.Muster("list"); got.Code != 1 || !strings.Contains(got.Err, "a valid token is needed") {
			t.Errorf("%+v", got)
		}
		r.Run("users", "enable", "bea")
		bea.Run("list")
	})
	if out := bert.Run("audit", "--project", "bio", "--person", "bea"); !strings.Contains(out, "tunnel") {
		t.Errorf("the owner does not see who came: %s", out)
	}
	r.Run("delete", "aero/cfd", "--wait")
	r.Run("delete", "lab", "--wait")
	r.NothingLeft()
}
