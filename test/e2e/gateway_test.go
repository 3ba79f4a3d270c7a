package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	lines := []string{"Host gw", "HostName " + host, "Port " + port, "StrictHostKeyChecking no", "Host *", "IdentityFile " + filepath.Join(d.dir, "id"), "IdentitiesOnly yes", "IdentityAgent none",
		"UserKnownHostsFile " + filepath.Join(d.dir, "known_hosts"), "GlobalKnownHostsFile /dev/null", "BatchMode yes", "LogLevel ERROR", "StrictHostKeyChecking no", "User admin"}
	if err := os.WriteFile(d.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		r.Fatal(err)
	}
	return d
}

// key makes a key.
func (d door) key(name string) {
	d.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(d.dir, name)).CombinedOutput(); err != nil {
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
		d.expect(rig.Result{Out: "admin\nhead\n", Err: "oops\n", Code: 7}, "ssh", "cfd@gw", "id -un; hostname; echo oops >&2; exit 7")
		d.expect(rig.Result{Out: "admin\n"}, "ssh", "admin+default/cfd@gw", "id -un")
		d.expect(rig.Result{Out: "n1\n"}, "ssh", "cfd.default@gw", "srun -N1 -w n1 hostname")
	})
	t.Run("nodes are behind ProxyJump", func(t *testing.T) {
		d := door{r.In(t), d.config, d.dir}
		d.expect(rig.Result{Out: "n2\n"}, "ssh", "-J", "gw", "n2.cfd", "hostname")
	})
}
