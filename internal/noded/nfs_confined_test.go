package noded

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/test/nfsclient"
)

// TestASystemUserIsNobodyOnHome calls as users and groups that the cluster has not given to anybody, from a node that mounts.
func TestASystemUserIsNobodyOnHome(t *testing.T) {
	s := serveHome(t, "10.99.0.10")
	c := s.from(t, "10.99.0.10", true, alice)
	s.secret(t, c)
	const text = "not for callers"
	file := func(name string, uid, gid int, mode os.FileMode) {
		path := filepath.Join(s.disk, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		must(t, errors.Join(os.Chown(path, uid, gid), os.Chmod(path, mode)))
	}
	file("shadow", 0, 42, 0o640)
	file("slurm", 64030, 64030, 0o600)
	file("nobody", 65534, 65534, 0o600)
	file("root", 0, 0, 0o600)
	file("left", 5099, 5099, 0o600)
	public := filepath.Join(s.disk, "public")
	must(t, errors.Join(os.Mkdir(public, 0o777), os.Chmod(public, 0o777)))
	home, _, err := c.LookUp(nil, "home")
	must(t, err)
	open, _, err := c.LookUp(home, "public")
	must(t, err)
	who := []nfsclient.Who{{UID: 0}, {UID: 0, GID: 42, Groups: []uint32{0, 42}}}
	for _, uid := range []uint32{1, 42, 105, 999, 1000, 5099, 64030, 65533, 65534, 1 << 31, 1<<32 - 2, 1<<32 - 1} {
		who = append(who, nfsclient.Who{UID: uid, GID: uid}, nfsclient.Who{UID: uid, GID: aliceUID, Groups: []uint32{bobUID, 42}})
	}
	for _, gid := range []uint32{0, 42, 64030, 65534} { // alice herself, in groups that she is not in
		who = append(who, nfsclient.Who{UID: aliceUID, GID: gid},
			nfsclient.Who{UID: aliceUID, GID: aliceUID, Groups: []uint32{gid, 0, 42}})
	}
	for _, w := range who {
		c.As(w)
		for _, name := range []string{"shadow", "slurm", "nobody", "root", "left"} {
			h, _, err := c.LookUp(home, name)
			// docs/decisions/home.md says why shadow is left
			if err != nil || name == "shadow" && w.UID == aliceUID && w.GID == 65534 {
				continue
			}
			if got, err := c.Read(h, 0, 100); err == nil {
				t.Errorf("%+v reads %s: %q", w, name, got)
			}
			if err := c.Write(h, 0, []byte("x")); err == nil {
				t.Errorf("%+v writes %s", w, name)
			}
		}
		if w.UID != aliceUID {
			if h, _, err := c.LookUp(home, "alice", "secret"); err == nil {
				t.Errorf("%+v finds alice's file % x", w, h)
			}
		}
		_, _ = c.Mkdir(open, fmt.Sprintf("%d-%d-%d", w.UID, w.GID, len(w.Groups)))
	}
	entries, err := os.ReadDir(public)
	must(t, err)
	for _, entry := range entries {
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(public, entry.Name()), &st))
		uids, gids := []uint32{aliceUID, 1<<32 - 2}, []uint32{aliceUID, bobUID, 1<<32 - 2}
		if !slices.Contains(uids, st.Uid) || !slices.Contains(gids, st.Gid) {
			t.Errorf("%s belongs to %d:%d", entry.Name(), st.Uid, st.Gid)
		}
	}
	if len(entries) == 0 {
		t.Error("alice herself made nothing")
	}
	s.secret(t, c.As(alice))
}

// TestTheServerOfHomeSeesNothingElse looks at what the server's process has, and who else has its rights.
func TestTheServerOfHomeSeesNothingElse(t *testing.T) {
	s := serveHome(t, "10.99.0.10")
	processes := strings.Fields(s.sh(t, `p=$(runc state %s%s | sed -n 's/.*"pid": \([0-9]*\).*/\1/p'); for d in /proc/[0-9]*; do
		[ "$(readlink $d/ns/net)" = "$(readlink /proc/$p/ns/net)" ] && echo ${d#/proc/}; done; true`, s.net, s.head.Name))
	servers := 0
	for _, p := range processes {
		status, err := os.ReadFile("/proc/" + p + "/status")
		if err != nil {
			continue
		}
		field := func(name string) string {
			_, rest, _ := strings.Cut(string(status), "\n"+name+":")
			value, _, _ := strings.Cut(rest, "\n")
			return strings.TrimSpace(value)
		}
		command, _ := os.ReadFile("/proc/" + p + "/cmdline")
		called := strings.ReplaceAll(string(command), "\x00", " ")
		var held uint64
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			var n uint64
			_, err := fmt.Sscanf(field(set), "%x", &n)
			must(t, err)
			held |= n
		}
		inside := strings.Contains(called, "ganesha.nfsd") || strings.Contains(called, "agent home")
		bits := uint64(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_MKNOD)
		if held&bits != 0 {
			t.Errorf("%s may do %x", called, held&bits)
		}
		if held&(1<<unix.CAP_DAC_READ_SEARCH) != 0 && !inside {
			t.Errorf("%s may open files by handle", called)
		}
		if !inside {
			continue
		}
		servers++
		if held&(1<<unix.CAP_NET_ADMIN|1<<unix.CAP_NET_RAW|1<<unix.CAP_KILL|1<<unix.CAP_SYS_CHROOT|
			1<<unix.CAP_SETPCAP|1<<unix.CAP_SETFCAP) != 0 || field("NoNewPrivs") != "1" {
			t.Errorf("%s has %x, no new privileges: %s", called, held, field("NoNewPrivs"))
		}
		mounts, err := os.ReadFile("/proc/" + p + "/mountinfo")
		must(t, err)
		for line := range strings.Lines(string(mounts)) {
			words := strings.Fields(line)
			at, options, kind := words[4], words[5], words[slices.Index(words, "-")+1]
			switch {
			case at == "/" && kind == "tmpfs", at == "/home" && kind == "xfs" && strings.Contains(options, "nosuid") &&
				strings.Contains(options, "nodev"):
			case at == "/proc" && kind == "proc" && strings.HasSuffix(line, ",subset=pid\n"):
			case kind == "overlay" && strings.HasPrefix(options, "ro,"):
			default:
				t.Errorf("%s sees %s", called, line)
			}
		}
		entries, err := os.ReadDir("/proc/" + p + "/root")
		must(t, err)
		for _, entry := range entries {
			if !slices.Contains(strings.Fields("dev etc home lib lib64 proc run tmp usr var"), entry.Name()) {
				t.Errorf("%s sees /%s", called, entry.Name())
			}
		}
		seen, err := filepath.Glob("/proc/" + p + "/root/proc/[a-z1-9]*")
		if err != nil || len(seen) != 4 { // it and the other one, self, and thread-self
			t.Errorf("%s sees %q, %v", called, seen, err)
		}
	}
	if servers != 2 {
		t.Errorf("%d processes of the server among %d", servers, len(processes))
	}
}

// TestAHomeInALargerFileSystemIsNotServed starts a head as one was before each /home had a file system of its own.
func TestAHomeInALargerFileSystemIsNotServed(t *testing.T) {
	s := newServedHome(t, "mkfs.xfs")
	s.sh(t, "umount '%s'; mkdir -p '%s/here'; mount --bind '%s/here' '%s'", s.disk, s.dir, s.dir, s.disk)
	var agent, home unix.Stat_t
	must(t, errors.Join(unix.Stat(s.binary, &agent), unix.Stat(s.disk, &home)))
	if agent.Dev != home.Dev {
		t.Skip("skipped: the test's folder and its program are on different file systems")
	}
	s.mount("10.99.0.10")
	s.boot(t, s.head)
	text := ""
	s.controller.until(t, "a head that says why it does not serve", func() bool {
		for _, c := range s.controller.reports["head"].Checks {
			if c.Name == "nfs" && !c.OK {
				text = c.Text
			}
		}
		return strings.Contains(text, "folder of a larger file system")
	})
	must(t, netns.Do("/run/netns/"+s.net, func() error {
		if c, err := nfsclient.Privileged(t.Context(), s.server(), netip.MustParseAddr("10.99.0.10"), alice); err == nil {
			c.Close()
			t.Error("something listens all the same")
		}
		return nil
	}))
}

// TestAHeadThatServesGivesNobodyNamespaces tries what the head's filter of calls allows for the jail's sake alone.
func TestAHeadThatServesGivesNobodyNamespaces(t *testing.T) {
	s := serveHome(t, "10.99.0.10")
	for _, command := range []string{"unshare -U true", "unshare -Um true", "unshare -Ur mount -t tmpfs x /mnt",
		"unshare -m true"} {
		if got := s.ssh(t, s.head, command+" 2>&1 || echo refused"); !strings.HasSuffix(got, "refused\n") {
			t.Errorf("%s: %s", command, got)
		}
	}
}
