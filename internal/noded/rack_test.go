package noded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/netns"
	"muster/internal/noded/jail"
	"muster/internal/protocol"
)

// imageVariable names the squashfs of a real image, for the tests that boot nodes.
const imageVariable = "MUSTER_TEST_IMAGE"

// TestMain lets the test's own binary be the agent inside the nodes that it boots, and the parent of orphans.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "agent" && os.Args[2] == "host":
		os.Exit(guestsMain())
	case os.Getenv(hostVariable) != "":
		os.Exit(hostMain())
	case len(os.Args) == 2 && os.Args[1] == "agent":
		os.Exit(agentMain())
	case len(os.Args) == 3 && os.Args[1] == "agent" && os.Args[2] == jail.Argument:
		if err := jail.Main(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(orphanVariable) != "":
		os.Exit(orphanMain())
	}
	os.Exit(m.Run())
}

// rack is a handful of real nodes: runc containers of the real image on a bridge in a network namespace.
type rack struct {
	dir, net, image string
	controller      *fakeController
	binary          string
	key             ssh.Signer // alice's
	pretends        map[string]pretence
	cpusets         string          // a hierarchy of CPU sets for nodes with CPUs of their own; "": they have none
	closed          bool            // nodes may not make user namespaces
	others          []protocol.User // beside alice
}

// pretence is hardware that the kernel seems to show to a node.
type pretence struct {
	tree    string   // with its sys and proc/driver
	devices []string // that are not read: "/dev/nvidia0"
}

func newRack(t testing.TB) *rack {
	t.Helper()
	image := os.Getenv(imageVariable)
	if image == "" || os.Geteuid() != 0 {
		t.Skipf("needs root and %s, the path of an image's root.squashfs", imageVariable)
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("needs runc")
	}
	binary, err := os.Executable()
	must(t, err)
	key, _, err := sshKey("alice@laptop")
	must(t, err)
	signer, err := ssh.ParsePrivateKey(key)
	must(t, err)
	r := &rack{dir: t.TempDir(), net: fmt.Sprintf("mt%d", os.Getpid()), controller: newFakeController(t), binary: binary,
		key: signer}
	r.image = filepath.Join(r.dir, "image")
	for _, dir := range []string{"image", "sockets", "home"} {
		must(t, os.Mkdir(filepath.Join(r.dir, dir), 0o755))
	}
	r.sh(t, "mount -o loop,ro '%s' '%s'", image, r.image)
	t.Cleanup(func() { r.sh(t, "umount '%s'", r.image) })
	r.sh(t, "mount -t tmpfs -o mode=755,nosuid,nodev home '%s/home'", r.dir) // a file system of its own
	t.Cleanup(func() { r.sh(t, "umount '%s/home'", r.dir) })
	r.sh(t, "ip netns add %s && ip -n %s link set lo up && ip -n %s link add br0 type bridge && ip -n %s addr add "+
		"10.99.0.254/16 dev br0 && ip -n %s link set br0 up", r.net, r.net, r.net, r.net, r.net)
	t.Cleanup(func() { r.sh(t, "ip netns del %s", r.net) })
	r.controller.listen(t, filepath.Join(r.dir, "sockets", "one.sock"))
	return r
}

func (r *rack) sh(t testing.TB, format string, args ...any) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", fmt.Sprintf(format, args...)).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", fmt.Sprintf(format, args...), err, out)
	}
	return string(out)
}

// plug makes a node's cable and disk; boot starts it. They are apart so that a boot is timed alone.
func (r *rack) plug(t testing.TB, p protocol.Peer) {
	t.Helper()
	ns, dir := r.net+p.Name, filepath.Join(r.dir, p.Name)
	veth := fmt.Sprintf("v%s", p.Name)
	for _, sub := range []string{"up", "work", "root", "run/muster/controllers"} {
		must(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	r.sh(t, "ip netns add %s && ip -n %s link set lo up && ip -n %s link add %s type veth peer name eth0 address %s netns %s "+
		"&& ip -n %s link set %s master br0 up && ip -n %s addr add %s/16 dev eth0 && ip -n %s link set eth0 up",
		ns, ns, r.net, veth, p.MAC, ns, r.net, veth, ns, p.Address, ns)
	r.sh(t, "mount -t overlay -o 'lowerdir=%s,upperdir=%s/up,workdir=%s/work' overlay '%s/root'", r.image, dir, dir, dir)
	t.Cleanup(func() {
		r.sh(t, "umount '%s/root'; ip -n %s link del %s; ip netns del %s", dir, r.net, veth, ns)
	})
	r.controller.mu.Lock()
	r.controller.tokens[p.Name] = "token-" + p.Name
	r.controller.mu.Unlock()
	boot, err := json.Marshal(protocol.BootFile{Node: p.Name, Name: p.Name, Boot: 1, Token: "token-" + p.Name,
		Authority: r.controller.authority, Endpoints: []string{"unix://" + protocol.SocketDir}})
	must(t, err)
	must(t, os.WriteFile(dir+".boot", boot, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "run/muster/boot.json"), boot, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), r.spec(t, p, dir), 0o644))
}

func (r *rack) spec(t testing.TB, p protocol.Peer, dir string) []byte {
	t.Helper()
	type object = map[string]any
	caps := strings.Split("CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_SETFCAP CAP_SETUID CAP_SETGID CAP_SETPCAP "+
		"CAP_KILL CAP_SYS_CHROOT CAP_AUDIT_WRITE CAP_NET_ADMIN CAP_NET_RAW CAP_NET_BIND_SERVICE", " ")
	if p.Role == protocol.Head {
		caps = append(caps, "CAP_SYS_ADMIN", "CAP_DAC_READ_SEARCH") // it serves /home
	}
	bind := func(to, from string, options ...string) object {
		return object{"destination": to, "type": "bind", "source": from, "options": append([]string{"bind"}, options...)}
	}
	args, sys := []string{"/usr/sbin/muster", "agent"}, object{"destination": "/sys", "type": "sysfs", "source": "sysfs",
		"options": []string{"ro"}}
	var seeming []object
	if p.OwnCPUs {
		caps = append(caps, "CAP_SYS_NICE") // Slurm binds tasks that are users' by then
		if r.cpusets != "" {
			seeming = append(seeming, bind(scheduler.CPUSets, r.cpusets))
		}
	}
	if p, ok := r.pretends[p.Name]; ok {
		caps = append(caps, "CAP_SYS_ADMIN")
		sys = bind("/sys", p.tree+"/sys", "ro")
		seeming = append(seeming, bind("/tree", p.tree, "ro"))
		// which runc refuses to do
		args = []string{"sh", "-c", "mount --bind /tree/proc/driver /proc/driver && exec muster agent"}
		for _, device := range p.devices {
			seeming = append(seeming, bind(device, "/dev/null"))
		}
	}
	var filter object // as the driver's: no user namespaces, but whatever building a jail takes
	if r.closed {
		user := object{"index": 0, "value": unix.CLONE_NEWUSER, "valueTwo": unix.CLONE_NEWUSER, "op": "SCMP_CMP_MASKED_EQ"}
		filter = object{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []object{
			{"names": []string{"clone"}, "action": "SCMP_ACT_ERRNO", "args": []object{user}},
			{"names": []string{"clone3"}, "action": "SCMP_ACT_ERRNO", "errnoRet": int(unix.ENOSYS)},
		}}
	}
	linux := object{"namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "uts"}, {"type": "ipc"},
		{"type": "network", "path": "/run/netns/" + r.net + p.Name}}}
	if filter != nil {
		linux["seccomp"] = filter
	}
	text, err := json.Marshal(object{
		"ociVersion": "1.0.2", "hostname": p.Name, "root": object{"path": dir + "/root"},
		"process": object{
			"args": args, "cwd": "/", "user": object{"uid": 0, "gid": 0},
			"env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
				"LANG=C.UTF-8"},
			"capabilities": object{"bounding": caps, "effective": caps, "permitted": caps},
		},
		"mounts": append([]object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			sys,
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=755", "size=64k"}},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts",
				"options": []string{"newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
			{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": []string{"mode=1777"}},
			bind("/run", dir+"/run"), bind(protocol.SocketDir, r.dir+"/sockets", "ro"),
			bind("/usr/sbin/muster", r.binary, "ro"), bind("/home", r.dir+"/home"),
		}, seeming...),
		"linux": linux,
	})
	must(t, err)
	return text
}

// boot starts the node; its console goes to a file that a failed test shows.
func (r *rack) boot(t testing.TB, p protocol.Peer) {
	t.Helper()
	dir := filepath.Join(r.dir, p.Name)
	console, err := os.Create(filepath.Join(dir, "console"))
	must(t, err)
	defer console.Close()
	run := exec.Command("runc", "run", "-d", "-b", dir, r.net+p.Name)
	run.Stdout, run.Stderr = console, console
	t.Cleanup(func() {
		if t.Failed() || testing.Verbose() {
			text, _ := os.ReadFile(console.Name())
			t.Logf("console of %s:\n%s", p.Name, text)
		}
		_ = exec.Command("runc", "delete", "-f", r.net+p.Name).Run()
	})
	if err := run.Run(); err != nil {
		text, _ := os.ReadFile(console.Name())
		t.Fatalf("runc: %v: %s", err, text)
	}
}

// crash ends the node without a word and gives it an empty disk and the same boot file, for another boot.
func (r *rack) crash(t testing.TB, p protocol.Peer) {
	t.Helper()
	dir := filepath.Join(r.dir, p.Name)
	r.sh(t, `runc delete -f %s%s && cd '%s' && umount root && rm -rf up work run/* && mkdir -p up work run/muster/controllers && cp '%s.boot' run/muster/boot.json &&
		mount -t overlay -o 'lowerdir=%s,upperdir=%s/up,workdir=%s/work' overlay root`, r.net, p.Name, dir, dir, r.image, dir, dir)
}

// halt ends the node with SIGTERM and says how long it took.
func (r *rack) halt(t testing.TB, p protocol.Peer) time.Duration {
	t.Helper()
	began := time.Now()
	r.sh(t, "runc kill %s%s TERM", r.net, p.Name)
	for time.Since(began) < patience {
		out, err := exec.Command("runc", "state", r.net+p.Name).Output()
		if err != nil || strings.Contains(string(out), `"stopped"`) {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s does not end", p.Name)
	return 0
}

// cost is what the node's agent has used so far: memory in all, its own part of it, and CPU time without its children's.
func (r *rack) cost(t testing.TB, p protocol.Peer) string {
	t.Helper()
	return strings.Join(strings.Fields(r.sh(t,
		`p=$(runc state %s%s | sed -n 's/.*"pid": \([0-9]*\).*/\1/p'); grep -hE 'VmRSS|RssAnon' /proc/$p/status; awk '{print ($14+$15)*10 " ms CPU"}' /proc/$p/stat`, r.net, p.Name)), " ")
}

// ssh runs a command on a node as alice, from the network's gateway, and returns its standard output: on the other one Slurm says
// now and then that a job waits. The host key must be signed by the authority.
func (r *rack) ssh(t testing.TB, p protocol.Peer, command string) string {
	t.Helper()
	conn, err := netns.Dial(t.Context(), "/run/netns/"+r.net, "tcp", p.Address+":22")
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(5*time.Minute)))
	checker := &ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool {
		return string(key.Marshal()) == string(r.controller.hostCA.PublicKey().Marshal())
	}}
	c, channels, requests, err := ssh.NewClientConn(conn, p.Name+":22", &ssh.ClientConfig{
		User: "alice", Auth: []ssh.AuthMethod{ssh.PublicKeys(r.key)}, HostKeyCallback: checker.CheckHostKey,
	})
	must(t, err)
	session, err := ssh.NewClient(c, channels, requests).NewSession()
	must(t, err)
	var errors bytes.Buffer
	session.Stderr = &errors
	out, err := session.Output(command)
	if err != nil {
		t.Fatalf("%s: %v: %s%s", command, err, out, &errors)
	}
	return string(out)
}

func testPeer(name string, number int, role protocol.Role) protocol.Peer {
	p := protocol.Peer{Name: name, Address: fmt.Sprintf("10.99.%d.%d", number/250, number%250+1), Role: role, CPUs: 2,
		MemoryMiB: 2000}
	p.MAC = fmt.Sprintf("02:00:0a:63:%02x:%02x", number/250, number%250+1)
	if role == protocol.Compute {
		p.Queue = "cpu"
	}
	return p
}

// configure gives each peer its configuration. No queue grows beyond the peers that it has.
func (r *rack) configure(revision int64, queues []protocol.Queue, peers ...protocol.Peer) {
	queues = slices.Clone(queues)
	for i := range queues {
		for _, p := range peers {
			if p.Queue == queues[i].Name {
				queues[i].Most++
			}
		}
	}
	for _, p := range peers {
		r.controller.set(p.Name, protocol.Config{
			Revision: revision, Cluster: "test", Self: p, Peers: peers, ExportHome: p.Role == protocol.Head,
			Credential: []byte(strings.Repeat("0123456789abcdef", 8)), Queues: queues,
			Users: append([]protocol.User{{Name: "alice", UID: 5000,
				Keys: []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(r.key.PublicKey())))}}}, r.others...),
			SSH: protocol.SSH{UserCA: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(r.key.PublicKey()))),
				HostCA: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(r.controller.hostCA.PublicKey())))},
		})
	}
}

// scheduler is the scheduler's view of a node in the head's last report.
func (f *fakeController) scheduler(node string) protocol.NodeState {
	if s := f.reports["head"].Scheduler; s != nil {
		for _, n := range s.Nodes {
			if n.Name == node {
				return n
			}
		}
	}
	return protocol.NodeState{}
}

// healthy says whether all the node's checks are passed.
func (f *fakeController) healthy(node string) bool {
	r, ok := f.reports[node]
	for _, c := range r.Checks {
		ok = ok && c.OK
	}
	return ok
}
