package compare_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/test/nfsclient"
	"muster/test/rig"
)

// homeRecord is in how large pieces one large file is written and read, as IOR does it; beside it there are many small ones, as
// compilers make them.
const homeRecord = 1 << 20

// homeWork is what one round of work took: MB/s of the large file, operations a second of the small ones.
type homeWork struct{ write, read, create, look, remove float64 }

var homeRows = []struct {
	what, unit string
	of         func(homeWork) float64
}{
	{fmt.Sprintf("write %d MiB, with fsync", size.records), "MB/s", func(w homeWork) float64 { return w.write }},
	{"read them", "MB/s", func(w homeWork) float64 { return w.read }},
	{fmt.Sprintf("make %d files", size.files), "1/s", func(w homeWork) float64 { return w.create }},
	{"look at them", "1/s", func(w homeWork) float64 { return w.look }},
	{"remove them", "1/s", func(w homeWork) float64 { return w.remove }},
}

// timeHome times the steps of a round.
func timeHome(write, read, create, look, remove func() error) (w homeWork, err error) {
	large, small := float64(homeRecord*size.records)/1e6, float64(size.files)
	for _, step := range []struct {
		amount float64
		into   *float64
		do     func() error
	}{
		{large, &w.write, write}, {large, &w.read, read},
		{small, &w.create, create}, {small, &w.look, look}, {small, &w.remove, remove},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			return w, err
		}
		*step.into = step.amount / time.Since(begin).Seconds()
	}
	return w, nil
}

// workInFolder is a round in a folder, in which it leaves nothing.
func workInFolder(dir string) (homeWork, error) {
	record, large := bytes.Repeat([]byte("muster"), homeRecord/6+1)[:homeRecord], filepath.Join(dir, "large")
	defer os.Remove(large)
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("small%d", i)) }
	each := func(do func(string) error) func() error {
		return func() (err error) {
			for i := range size.files {
				err = errors.Join(err, do(name(i)))
			}
			return err
		}
	}
	return timeHome(
		func() error {
			f, err := os.Create(large)
			for i := 0; i < size.records && err == nil; i++ {
				_, err = f.Write(record)
			}
			if err == nil {
				err = f.Sync()
			}
			return errors.Join(err, f.Close())
		},
		func() error {
			f, err := os.Open(large)
			for err == nil {
				_, err = f.Read(record)
			}
			_ = f.Close() // it was read only
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		},
		each(func(path string) error { return os.WriteFile(path, record[:100], 0o644) }),
		each(func(path string) error { _, err := os.Stat(path); return err }),
		each(os.Remove),
	)
}

// workOverNFS is a round in the folder of a server.
func workOverNFS(c *nfsclient.Client, dir nfsclient.Handle) (homeWork, error) {
	record := bytes.Repeat([]byte("muster"), homeRecord/6+1)[:homeRecord]
	each := func(do func(string) error) func() error {
		return func() (err error) {
			for i := range size.files {
				err = errors.Join(err, do(fmt.Sprintf("small%d", i)))
			}
			return err
		}
	}
	h, state, err := c.Open(dir, "large", true)
	if err != nil {
		return homeWork{}, err
	}
	w, err := timeHome(
		func() (err error) {
			for i := 0; i < size.records && err == nil; i++ {
				err = c.Stream(h, state, uint64(i*homeRecord), record)
			}
			return errors.Join(err, c.Commit(h))
		},
		func() (err error) {
			for i := 0; i < size.records && err == nil; i++ {
				_, err = c.ReadOpen(h, state, uint64(i*homeRecord), homeRecord)
			}
			return err
		},
		each(func(name string) error {
			h, state, err := c.Open(dir, name, true)
			if err != nil {
				return err
			}
			return errors.Join(c.Stream(h, state, 0, record[:100]), c.CloseFile(h, state))
		}),
		each(func(name string) error { _, _, err := c.LookUp(dir, name); return err }),
		each(func(name string) error { return c.Remove(dir, name) }),
	)
	return w, errors.Join(err, c.CloseFile(h, state), c.Remove(dir, "large"))
}

// TestCompareHome puts /home beside a plain folder of the same disk: on a node of this host by itself, and for machines and
// guests as the head serves it, beside nfs-ganesha as it comes, which serves that folder to everybody.
func TestCompareHome(t *testing.T) {
	testall.Only(t)
	r := rig.New(t, "")
	r.Flags = []string{"--local-hypervisor"}
	r.Start()
	r.Run("machines", "add", "--local", "3", "--memory", "8GiB", "--wait")
	plain := t.TempDir()
	compareHomeHere(r, plain)
	compareHomeServed(r, plain)
}

// compareHome runs rounds of ours and theirs in turn.
func compareHome(r *rig.Rig, where, peer string, ours, theirs func() (homeWork, error)) {
	var here, there []homeWork
	for range size.rounds {
		for _, side := range []struct {
			do   func() (homeWork, error)
			into *[]homeWork
		}{{ours, &here}, {theirs, &there}} {
			w, err := side.do()
			if err != nil {
				r.Fatalf("%s: %v", where, err)
			}
			*side.into = append(*side.into, w)
		}
	}
	for _, c := range homeRows {
		var a, b samples
		for i := range here {
			a, b = append(a, c.of(here[i])), append(b, c.of(there[i]))
		}
		results.add(r, row{what: where + ": " + c.what, unit: c.unit, peer: peer, ours: a, theirs: b, bound: "at least 0.97"})
	}
}

// compareHomeHere works in /home of a node by a program that runs there, and by the same program on the host.
func compareHomeHere(r *rig.Rig, plain string) {
	r.Run("create", "-f", r.File("home.yaml", "name: home\nnodes: 1\n"), "--wait")
	program, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		r.Fatal(err)
	}
	var c struct{ ID string }
	r.Get(&c, "get", "home")
	put := filepath.Join(r.TempDir(), "work")
	for _, path := range []string{put, filepath.Join(r.Data, "local/clusters", c.ID, "home/work")} {
		if err := os.WriteFile(path, text, 0o755); err != nil {
			r.Fatal(err)
		}
	}
	work := func(out string) (w homeWork, err error) {
		_, err = fmt.Sscanln(out, &w.write, &w.read, &w.create, &w.look, &w.remove)
		return w, err
	}
	compareHome(r, "/home of a node here", "folder",
		func() (homeWork, error) {
			return work(r.Run("ssh", "home", "--", "env", wholeVariable+"="+os.Getenv(wholeVariable), homeVariable+"=.",
				"/home/work"))
		},
		func() (homeWork, error) {
			c := command(r, put)
			c.Env = []string{wholeVariable + "=" + os.Getenv(wholeVariable), homeVariable + "=" + plain}
			out, err := c.Output()
			if err != nil {
				return homeWork{}, err
			}
			return work(string(out))
		})
	r.Run("delete", "home", "--wait")
}

// homeVariable names the folder in which this program is to do a round of work, and nothing else.
const homeVariable = "MUSTER_COMPARE_WORK"

// compareHomeServed asks the head of a cluster with a guest, with the guest's address, and a server as Debian brings it.
func compareHomeServed(r *rig.Rig, plain string) {
	r.Run("create", "-f", r.File("served.yaml", "name: served\nisolation: vm\nnodes: 1\n"))
	var c struct {
		ID    string
		Nodes []struct{ Name, Phase, Address string }
	}
	r.Eventually(3*time.Minute, "the head serves", func() bool {
		r.Get(&c, "get", "served")
		return slices.ContainsFunc(c.Nodes, func(n struct{ Name, Phase, Address string }) bool {
			return n.Name == "head" && n.Phase == "ready"
		})
	})
	r.Eventually(5*time.Minute, "the guest is idle", func() bool {
		r.Get(&c, "get", "served")
		return !slices.ContainsFunc(c.Nodes, func(n struct{ Name, Phase, Address string }) bool { return n.Phase != "ready" })
	})
	var head, guest netip.Addr
	for _, n := range c.Nodes {
		if n.Name == "head" {
			head = netip.MustParseAddr(n.Address)
		} else {
			guest = netip.MustParseAddr(n.Address)
		}
	}
	network := filepath.Join(r.Data, "local/clusters", c.ID, "netns")
	bridge := strings.Fields(sh(r, "nsenter --net=%s ip -br link show type bridge", network))
	sh(r, "nsenter --net=%s ip addr add %s/16 dev %s", network, guest, bridge[0])
	r.Node("served", "head").Inside(fmt.Sprintf("ip neigh replace %s lladdr %s nud permanent dev eth0", guest, bridge[2]))
	ours, bare := netip.AddrPortFrom(head, 2049), netip.AddrPortFrom(head, 2050)
	bareServer(r, bare, plain)
	root := nfsclient.Who{}
	dial := func(server netip.AddrPort) (client *nfsclient.Client, home nfsclient.Handle) {
		var err error
		r.Cleanup(func() {
			if err != nil {
				r.Logf("%s: %v", server, err)
			}
		})
		r.Until("/home is served", func() bool {
			err = netns.Do(network, func() (err error) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				client, err = nfsclient.Privileged(ctx, server, guest, root)
				return err
			})
			if err == nil {
				home, _, err = client.LookUp(nil, "home")
			}
			return err == nil
		})
		return client, home
	}
	// Both folders are a user's of the cluster: the head serves no other users.
	var owner unix.Stat_t
	homes := filepath.Join(r.Data, "local/clusters", c.ID, "home")
	if err := unix.Stat(filepath.Join(homes, "admin"), &owner); err != nil {
		r.Fatal(err)
	}
	user := nfsclient.Who{UID: owner.Uid, GID: owner.Gid}
	for _, dir := range []string{filepath.Join(homes, "work"), filepath.Join(plain, "work")} {
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, int(user.UID), int(user.GID))); err != nil {
			r.Fatal(err)
		}
	}
	round := func(server netip.AddrPort) func() (homeWork, error) {
		client, home := dial(server)
		client = client.As(user)
		dir, _, err := client.LookUp(home, "work")
		if err != nil {
			r.Fatal(err)
		}
		return func() (homeWork, error) { return workOverNFS(client, dir) }
	}
	compareHome(r, "/home by NFS", "ganesha", round(ours), round(bare))
	r.Run("delete", "served", "--wait")
}

// bareServer runs the image's nfs-ganesha in the head's network, for a folder.
func bareServer(r *rig.Rig, server netip.AddrPort, folder string) {
	dir, head := r.TempDir(), r.Node("served", "head")
	config := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 4; NFS_Port = %d; Bind_addr = %s;
	Enable_NLM = false; Enable_RQUOTA = false; allow_set_io_flusher_fail = true; }
NFS_KRB5 { Active_krb5 = false; }
NFSV4 { Minor_Versions = 0, 1, 2; Graceless = true; RecoveryBackend = fs; Only_Numeric_Owners = true; }
EXPORT { Export_Id = 1; Path = /home; Pseudo = /home; Protocols = 4; Transports = TCP;
	Access_Type = RW; Squash = Root_Squash; SecType = sys; FSAL { Name = VFS; } }
LOG { Default_Log_Level = WARN; }
`, server.Port(), server.Addr())
	if err := os.WriteFile(filepath.Join(dir, "bare.conf"), []byte(config), 0o644); err != nil {
		r.Fatal(err)
	}
	script := fmt.Sprintf(`set -e; cd %s; mkdir image up work root; mount -o loop,ro %s/root.squashfs image
mount -t tmpfs layers up; mkdir up/up up/work; mount -t overlay -o lowerdir=image,upperdir=up/up,workdir=up/work overlay root
mount --bind %s root/home; mount -t proc proc root/proc; mkdir -p root/run root/var/lib/nfs/ganesha
cp bare.conf root/run/; ln -sf /proc/self/mounts root/etc/mtab
exec chroot root /usr/bin/ganesha.nfsd -F -L STDERR -f /run/bare.conf -p /run/pid`, dir, rig.Image(r), folder)
	bare := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", head.PID), "unshare", "--mount", "sh", "-c", script)
	var out bytes.Buffer
	bare.Stdout, bare.Stderr = &out, &out
	bare.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := bare.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = unix.Kill(-bare.Process.Pid, unix.SIGKILL)
		_ = bare.Wait()
		if r.Failed() {
			r.Logf("the bare server: %s", out.String())
		}
	})
}

func sh(r *rig.Rig, format string, args ...any) string {
	r.Helper()
	out, err := command(r, "bash", "-c", fmt.Sprintf(format, args...)).CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v: %s", fmt.Sprintf(format, args...), err, out)
	}
	return string(out)
}
