package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/test/rig"
)

// door is the SSH gateway of a rig, for OpenSSH's own clients.
type door struct {
	*rig.Rig
	config string // path of the client's configuration
	dir    string
}

// newDoor registers a key of admin's and writes the configuration with which clients come.
func newDoor(r *rig.Rig) door {
	r.Helper()
	d := door{Rig: r, dir: r.TempDir()}
	d.config = filepath.Join(d.dir, "config")
	d.key("id")
	r.Run("keys", "add", filepath.Join(d.dir, "id.pub"))
	text, err := os.ReadFile(filepath.Join(r.Data, "controller.json"))
	if err != nil {
		r.Fatal(err)
	}
	var announced struct{ SSH string }
	if err := json.Unmarshal(text, &announced); err != nil {
		r.Fatal(err)
	}
	host, port, err := net.SplitHostPort(announced.SSH)
	if err != nil {
		r.Fatalf("no gateway in %s: %v", text, err)
	}
	lines := []string{"Host gw", "HostName " + host, "Port " + port, "StrictHostKeyChecking no", "Host *",
		"IdentityFile " + filepath.Join(d.dir, "id"), "IdentitiesOnly yes", "IdentityAgent none",
		"UserKnownHostsFile " + filepath.Join(d.dir, "known_hosts"), "GlobalKnownHostsFile /dev/null", "BatchMode yes",
		"LogLevel ERROR", "StrictHostKeyChecking no", "User admin"}
	if err := os.WriteFile(d.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		r.Fatal(err)
	}
	return d
}

// with is the door with another configuration.
func (d door) with(old, changed string) door {
	d.Helper()
	text, err := os.ReadFile(d.config)
	if err == nil {
		d.config = d.File("config", strings.ReplaceAll(string(text), old, changed))
	}
	if err != nil {
		d.Fatal(err)
	}
	return d
}

// key makes a key.
func (d door) key(name string) {
	d.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(d.dir, name)).
		CombinedOutput(); err != nil {
		d.Fatalf("ssh-keygen: %v %s", err, out)
	}
}

// do runs one of OpenSSH's programs with the client's configuration.
func (d door) do(program string, args ...string) rig.Result {
	d.Helper()
	c := exec.Command(program, append([]string{"-F", d.config}, args...)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.Fatalf("%s: %v", program, err)
	}
	return rig.Result{Out: out.String(), Err: errs.String(), Code: c.ProcessState.ExitCode()}
}

// expect runs it and compares all that came out.
func (d door) expect(want rig.Result, program string, args ...string) {
	d.Helper()
	if got := d.do(program, args...); got != want {
		d.Errorf("%s %s: %+v, want %+v", program, strings.Join(args, " "), got, want)
	}
}

func TestPeopleComeThroughTheGatewayWithPlainSSH(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	r.Flags = []string{"--ssh", "127.0.0.1:0"}
	r.Start()
	r.Run("machines", "add", "--local", "3", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nnodes: 2\n"), "--wait")
	d := newDoor(r)

	t.Run("commands have their output, their errors and their exit codes", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.expect(rig.Result{Out: "admin\nhead\n", Err: "oops\n", Code: 7}, "ssh", "cfd@gw",
			"id -un; hostname; echo oops >&2; exit 7")
		d.expect(rig.Result{Out: "admin\n"}, "ssh", "admin+default/cfd@gw", "id -un")
		d.expect(rig.Result{Out: "n1\n"}, "ssh", "cfd.default@gw", "srun -Q -N1 -w n1 hostname")
	})
	t.Run("files go both ways, by every program", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.carryFiles()
	})
	t.Run("terminals have the size that they are given, also later", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.resize()
	})
	t.Run("many sessions go over one connection", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		socket := filepath.Join(d.dir, "master")
		d.expect(rig.Result{}, "ssh", "-o", "ControlPath="+socket, "-o", "ControlMaster=yes", "-o", "ControlPersist=30", "cfd@gw",
			"true")
		for _, code := range []int{0, 3} {
			d.expect(rig.Result{Out: "head\n", Code: code}, "ssh", "-o", "ControlPath="+socket, "nobody@gw",
				fmt.Sprintf("hostname; exit %d", code))
		}
		d.do("ssh", "-o", "ControlPath="+socket, "-O", "exit", "gw")
	})
	t.Run("ports of the cluster's own nodes are forwarded, and nothing else", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		for _, host := range []string{"n1", "n1.cfd", "10.77.0.3", "localhost"} { // sshd greets on all of them
			if got := d.do("ssh", "-W", host+":22", "cfd@gw"); !strings.HasPrefix(got.Out, "SSH-2.0-OpenSSH") {
				t.Errorf("%s: %+v", host, got)
			}
		}
		for host, why := range map[string]string{"10.77.0.1": "is no node of cfd", "127.0.0.1.example": "is no node of cfd",
			"192.0.2.1": "is no node of cfd"} {
			if got := d.do("ssh", "-o", "LogLevel=INFO", "-W", host+":80", "cfd@gw"); got.Code == 0 ||
				!strings.Contains(got.Err, why) {
				t.Errorf("%s: %+v", host, got)
			}
		}
		if got := d.do("ssh", "-o", "LogLevel=INFO", "-W", "localhost:80", "gw"); got.Code == 0 ||
			!strings.Contains(got.Err, "has no cluster") {
			t.Error(got)
		}
		if got := d.do("ssh", "-R", "0:localhost:22", "-o", "ExitOnForwardFailure=yes", "cfd@gw", "true"); got.Code != 255 {
			t.Errorf("a port of the cluster's side: %+v", got)
		}
		d.expect(rig.Result{Out: "none\n"}, "ssh", "-A", "-X", "cfd@gw", "echo ${SSH_AUTH_SOCK:-none}$DISPLAY")
	})
	t.Run("nodes are behind ProxyJump", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.expect(rig.Result{Out: "n2\n"}, "ssh", "-J", "gw", "n2.cfd", "hostname")
		d.expect(rig.Result{Out: "head\n"}, "ssh", "-J", "gw", "cfd", "hostname")
		d.expect(rig.Result{Out: "n1\n"}, "ssh", "-J", "cfd@gw", "n1.cfd.default.muster", "hostname")
		if got := d.do("ssh", "-o", "LogLevel=INFO", "-W", "n9.cfd:22", "gw"); got.Code != 255 ||
			!strings.Contains(got.Err, `has no node "n9"`) {
			t.Error(got)
		}
	})
	t.Run("the client's configuration that is printed is enough, and trusts no other host", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		config, known, found := strings.Cut(d.Run("ssh-config"), "# ~/.ssh/muster_known_hosts\n")
		if !found {
			t.Fatal(config)
		}
		trusted := d.File("known_hosts", known)
		d.config = d.File("config", strings.ReplaceAll(config, "~/.ssh/muster_known_hosts", trusted)+"Host *\nIdentityFile "+
			filepath.Join(d.dir, "id")+"\nIdentityAgent none\nBatchMode yes\nLogLevel ERROR\n")
		d.expect(rig.Result{Out: "head\n"}, "ssh", "cfd@muster", "hostname")
		d.expect(rig.Result{Out: "n2\n"}, "ssh", "n2.cfd.muster", "hostname")
		d.expect(rig.Result{Out: "head\n"}, "ssh", "cfd.default.muster", "hostname")
		if err := os.WriteFile(trusted, []byte(strings.Replace(known, "*.muster", "*.other", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := d.do("ssh", "n2.cfd.muster", "hostname"); got.Code != 255 ||
			!strings.Contains(got.Err, "Host key verification failed") {
			t.Error(got)
		}
		if out := d.Run("sessions", "list", "--all"); !strings.Contains(out, "default/cfd") || !strings.Contains(out, "jump") {
			t.Error(out)
		}
	})
	t.Run("who cannot be let through is told why", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		if got := d.do("ssh", "nosuch@gw", "true"); got.Code != 255 ||
			!strings.Contains(got.Err, `has no cluster "nosuch" to log in to; you can log in to default/cfd`) {
			t.Error(got)
		}
		if got := d.do("ssh", "bob+cfd@gw", "true"); got.Code != 255 ||
			!strings.Contains(got.Err, "this key is admin's, not bob's") {
			t.Error(got)
		}
		d.key("other")
		if got := d.with("/id", "/other").do("ssh", "cfd@gw", "true"); got.Code != 255 ||
			!strings.Contains(got.Err, "Permission denied") {
			t.Error(got)
		}
	})
	t.Run("a key that is removed loses its sessions", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.revoke()
	})
	t.Run("a paused cluster says so, or comes back", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.Run("pause", "cfd", "--wait")
		if got := d.do("ssh", "cfd@gw", "true"); got.Code != 255 || !strings.Contains(got.Err, "cluster cfd is paused since") ||
			!strings.Contains(got.Err, "muster resume default/cfd --wait") {
			t.Error(got)
		}
		d.Run("apply", "-f", d.File("cfd.yaml", "name: cfd\nnodes: 2\naccess: {on_login: resume}\n"))
		if got := d.do("ssh", "cfd@gw", "hostname; exit 4"); got.Code != 4 || got.Out != "head\n" ||
			!strings.Contains(got.Err, "cfd was paused and comes back") {
			t.Error(got)
		}
	})
}

// carryFiles sends a file there and back by each program, and compares.
func (d door) carryFiles() {
	d.Helper()
	content := make([]byte, 8<<20+123)
	_, _ = rand.Read(content)
	source, back := filepath.Join(d.dir, "source"), filepath.Join(d.dir, "back")
	if err := os.WriteFile(source, content, 0o600); err != nil {
		d.Fatal(err)
	}
	batch := func(text string) string { return d.File("batch", text) }
	programs := map[string]func(){
		"scp": func() {
			d.expect(rig.Result{}, "scp", source, "cfd@gw:file")
			d.expect(rig.Result{}, "scp", "cfd@gw:file", back)
		},
		"scp -O": func() {
			d.expect(rig.Result{}, "scp", "-O", source, "cfd@gw:file")
			d.expect(rig.Result{}, "scp", "-O", "cfd@gw:file", back)
		},
		"sftp": func() {
			if got := d.do("sftp", "-b", batch("put "+source+" file\nget file "+back+"\n"), "cfd.default@gw"); got.Code != 0 {
				d.Error(got)
			}
		},
		"rsync": func() {
			for _, args := range [][]string{{source, "cfd@gw:file"}, {"cfd@gw:file", back}} {
				if out, err := exec.Command("rsync", append([]string{"-e", "ssh -F " + d.config}, args...)...).
					CombinedOutput(); err != nil {
					d.Errorf("rsync: %v %s", err, out)
				}
			}
		},
	}
	for name, carry := range programs {
		_ = os.Remove(back)
		carry()
		if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
			d.Errorf("%s: %d bytes came back of %d, %v", name, len(got), len(content), err)
		}
		d.do("ssh", "cfd@gw", "rm -f file")
	}
}

// resize gives ssh a terminal and changes its size.
func (d door) resize() {
	d.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		d.Fatal(err)
	}
	set := func(rows, columns uint16) {
		if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
			d.Fatal(err)
		}
	}
	set(31, 117)
	inner, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		d.Fatal(err)
	}
	c := exec.Command("ssh", "-F", d.config, "-tt", "cfd@gw",
		`trap 'echo now $(stty size); exit 9' WINCH; echo it has $(stty size); while sleep 0.1; do :; done`)
	c.Stdin, c.Stdout, c.Stderr = inner, inner, inner
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		d.Fatal(err)
	}
	_ = inner.Close()
	var seen strings.Builder
	shown := bufio.NewReader(terminal)
	until := func(text string) {
		for !strings.Contains(seen.String(), text) {
			line, err := shown.ReadString('\n')
			seen.WriteString(line)
			if err != nil {
				d.Errorf("%q does not come after %q: %v", text, seen.String(), err)
				return
			}
		}
	}
	until("it has 31 117")
	set(50, 200)
	until("now 50 200")
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 9 {
		d.Errorf("exit code %d", code)
	}
}

// revoke removes the key under a session that runs, and registers it again.
func (d door) revoke() {
	d.Helper()
	c := exec.Command("ssh", "-F", d.config, "cfd@gw", "echo begins; sleep 60")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		d.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		d.Fatal(line, err)
	}
	var keys struct {
		Items []struct{ Fingerprint string }
	}
	d.Get(&keys, "keys", "list")
	began := time.Now()
	d.Run("keys", "delete", keys.Items[0].Fingerprint)
	_ = c.Wait()
	took := time.Since(began)
	if took > time.Minute || c.ProcessState.ExitCode() != 255 ||
		!strings.Contains(errs.String(), "this session ends: your key or your login is no longer valid") {
		d.Errorf("after %s: exit code %d, %s", took, c.ProcessState.ExitCode(), errs.String())
	}
	d.Logf("a session ended %.1f s after its key", took.Seconds())
	if got := d.do("ssh", "cfd@gw", "true"); got.Code != 255 || !strings.Contains(got.Err, "Permission denied") {
		d.Error(got)
	}
	d.Run("keys", "add", filepath.Join(d.dir, "id.pub"))
	d.expect(rig.Result{}, "ssh", "cfd@gw", "true")
}
