package noded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"muster/internal/protocol"
)

var debianAccounts = accountFiles{
	passwd: "root:x:0:0:root:/root:/bin/bash\nmunge:x:100:101::/nonexistent:/usr/sbin/nologin\nslurm:x:64030:64030::/nonexistent:/usr/sbin/nologin\n",
	group:  "root:x:0:\nmunge:x:101:\nslurm:x:64030:\n",
	shadow: "root:*:19000:0:99999:7:::\nmunge:!:19000::::::\nslurm:!:19000::::::\n",
}

func TestAccountsComeAndAreLockedWhenTheirUserGoes(t *testing.T) {
	alice, bob := protocol.User{Name: "alice", UID: 5000}, protocol.User{Name: "bob", UID: 5001}
	first, _, err := debianAccounts.withUsers([]protocol.User{bob, alice}, accountFiles{})
	must(t, err)
	if want := debianAccounts.passwd +
		"alice:x:5000:5000:Muster:/home/alice:/bin/bash\nbob:x:5001:5001:Muster:/home/bob:/bin/bash\n"; first.passwd != want {
		t.Error(cmp.Diff(want, first.passwd))
	}
	second, left, err := first.withUsers([]protocol.User{bob}, accountFiles{})
	must(t, err)
	if second.passwd != first.passwd {
		t.Error("alice's files have lost their owner")
	}
	if !strings.Contains(second.shadow, "\nalice:!:") || !strings.Contains(second.shadow, "\nbob:*:") {
		t.Errorf("shadow: %s", second.shadow)
	}
	if left[5000] != "alice" || len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	third, _, err := second.withUsers([]protocol.User{alice, bob}, accountFiles{})
	must(t, err)
	if diff := cmp.Diff(first, third, cmp.AllowUnexported(accountFiles{})); diff != "" {
		t.Error(diff)
	}
}

func TestSystemAccountsCannotBeTaken(t *testing.T) {
	for _, u := range []protocol.User{{Name: "root", UID: 5000}, {Name: "slurm", UID: 5000}, {Name: "eve", UID: 0},
		{Name: "eve", UID: 999}, {Name: "e:0:0", UID: 5000}, {Name: "e\nroot", UID: 5000}, {Name: "", UID: 5000}} {
		got, _, err := debianAccounts.withUsers([]protocol.User{u}, accountFiles{})
		if err == nil || got != debianAccounts {
			t.Errorf("%+v: accepted: %v", u, err)
		}
	}
}

// TestNobodyGetsAGroupOfTheImage has people by the names of Debian's groups, as an identity provider may call them.
func TestNobodyGetsAGroupOfTheImage(t *testing.T) {
	image := debianAccounts
	image.group += "shadow:x:42:\ndocker:x:999:eve\nhpc:x:5007:\n"
	users := []protocol.User{{Name: "shadow", UID: 5005}, {Name: "docker", UID: 5006}, {Name: "alice", UID: 5000},
		{Name: "joe", UID: 5007}, {Name: "ldap", UID: 5008}}
	others := accountFiles{passwd: "ldap:x:7001:7001::/home/ldap:/bin/sh\n"}
	got, _, told := image.withUsers(users, others)
	if want := image.group + "alice:x:5000:\n_muster_5006:x:5006:\n_muster_5005:x:5005:\n"; got.group != want {
		t.Error(cmp.Diff(want, got.group))
	}
	for _, line := range []string{"shadow:x:5005:5005:", "docker:x:5006:5006:"} {
		if !strings.Contains(got.passwd, "\n"+line) {
			t.Errorf("no account %s in %s", line, got.passwd)
		}
	}
	for _, name := range []string{"joe", "ldap"} { // whose primary group would be hpc, and who is somebody else
		if strings.Contains(got.passwd, name) {
			t.Errorf("%s has an account", name)
		}
	}
	if told == nil || !strings.Contains(told.Error(), "shadow has _muster_5005") ||
		!strings.Contains(told.Error(), `"joe" (5007)`) {
		t.Error(told)
	}
	again, _, _ := got.withUsers(users, others)
	if diff := cmp.Diff(got, again, cmp.AllowUnexported(accountFiles{})); diff != "" {
		t.Error(diff)
	}
	gone, left, _ := got.withUsers(nil, others)
	if len(left) != 3 || gone.group != got.group {
		t.Error(left, cmp.Diff(got.group, gone.group))
	}
}

func TestUsersAreLookedUpWhereTheImageLooks(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "passwd: files systemd\ngroup: files [SUCCESS=merge] systemd\n": false,
		"# passwd: sss\nhosts: files dns\n": false,
		"passwd: files sss\n":               true, "group:\tcompat ldap # ours\n": true,
	} {
		if got := asksElsewhere(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestApplyingAccountsTwiceIsApplyingThemOnce(t *testing.T) {
	user := rapid.Custom(func(t *rapid.T) protocol.User {
		return protocol.User{Name: rapid.StringMatching(`[a-c]{1,2}`).Draw(t, "name"),
			UID: rapid.IntRange(900, 1100).Draw(t, "uid")}
	})
	rapid.Check(t, func(t *rapid.T) {
		before, _, _ := debianAccounts.withUsers(rapid.SliceOf(user).Draw(t, "before"), accountFiles{})
		users := rapid.SliceOf(user).Draw(t, "users")
		once, _, _ := before.withUsers(users, accountFiles{})
		twice, _, _ := once.withUsers(users, accountFiles{})
		if once != twice {
			t.Fatal(cmp.Diff(once, twice, cmp.AllowUnexported(accountFiles{})))
		}
		if !strings.HasPrefix(once.passwd, debianAccounts.passwd) {
			t.Fatalf("the image's accounts have changed: %s", once.passwd)
		}
	})
}

func TestTheUsersOwnKeysSurvive(t *testing.T) {
	own := "# mine\nssh-ed25519 AAAA own"
	text := withKeys(own, []string{"ssh-ed25519 BBBB laptop", "two\nlines", ""})
	text = "ssh-ed25519 CCCC first\n" + text + "ssh-ed25519 DDDD last\n"
	text = withKeys(text, []string{"ssh-ed25519 EEEE new"})
	want := "ssh-ed25519 CCCC first\n" + own + "\n" + keysBegin + "\nssh-ed25519 EEEE new\n" + keysEnd +
		"\nssh-ed25519 DDDD last\n"
	if text != want {
		t.Error(cmp.Diff(want, text))
	}
	if again := withKeys(text, []string{"ssh-ed25519 EEEE new"}); again != text {
		t.Error(cmp.Diff(text, again))
	}
}

func testDisk(t *testing.T) disk {
	t.Helper()
	d := disk{root: t.TempDir(), chown: func(string, int, int) error { return nil }}
	for name, text := range map[string]string{"/etc/passwd": debianAccounts.passwd, "/etc/group": debianAccounts.group,
		"/etc/shadow": debianAccounts.shadow, "/etc/skel/.profile": "umask 022\n"} {
		must(t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
		must(t, os.WriteFile(d.path(name), []byte(text), 0o644))
	}
	must(t, os.Mkdir(d.path("/home"), 0o755))
	return d
}

func TestAHomeIsMadeOnceAndItsKeysAreKeptUpToDate(t *testing.T) {
	d := testDisk(t)
	h := homes{d, "c-1"}
	uid := os.Geteuid() + 1000
	must(t, h.ensure(protocol.User{Name: "alice", UID: uid, Keys: []string{"ssh-ed25519 AAAA laptop"}}))
	keys, err := os.ReadFile(d.path("/home/alice/.ssh/authorized_keys"))
	must(t, err)
	public, err := os.ReadFile(d.path("/home/alice/.ssh/id_muster.pub"))
	must(t, err)
	for _, part := range []string{"ssh-ed25519 AAAA laptop\n", string(public)} {
		if !strings.Contains(string(keys), part) {
			t.Errorf("%q is not in %s", part, keys)
		}
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, ".ssh": 0o700, ".ssh/id_muster": 0o600,
		".ssh/authorized_keys": 0o600, ".profile": 0o644} {
		info, err := os.Stat(d.path("/home/alice/" + name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	must(t, h.ensure(protocol.User{Name: "alice", UID: uid}))
	after, err := os.ReadFile(d.path("/home/alice/.ssh/id_muster.pub"))
	must(t, err)
	keys, err = os.ReadFile(d.path("/home/alice/.ssh/authorized_keys"))
	must(t, err)
	if string(after) != string(public) || strings.Contains(string(keys), "laptop") {
		t.Errorf("keys are now %s", keys)
	}
}

func TestLinksThatLeadOutOfAHomeAreNotFollowed(t *testing.T) {
	d := testDisk(t)
	must(t, os.MkdirAll(d.path("/root/.ssh"), 0o700))
	must(t, os.Mkdir(d.path("/home/eve"), 0o700))
	must(t, os.Symlink(d.path("/root/.ssh"), d.path("/home/eve/.ssh")))
	if err := (homes{d, "c-1"}).ensure(protocol.User{Name: "eve", UID: 5001,
		Keys: []string{"ssh-ed25519 AAAA eve"}}); err == nil {
		t.Error("no error")
	}
	must(t, os.Mkdir(d.path("/home/mallory"), 0o700))
	must(t, os.Mkdir(d.path("/home/mallory/.ssh"), 0o700))
	must(t, os.WriteFile(d.path("/root/.ssh/authorized_keys"), []byte("root's\n"), 0o600))
	must(t, os.Symlink(d.path("/root/.ssh/authorized_keys"), d.path("/home/mallory/.ssh/authorized_keys")))
	if err := (homes{d, "c-1"}).ensure(protocol.User{Name: "mallory", UID: 5002,
		Keys: []string{"ssh-ed25519 AAAA mallory"}}); err == nil {
		t.Error("no error")
	}
	entries, err := os.ReadDir(d.path("/root/.ssh"))
	must(t, err)
	text, err := os.ReadFile(d.path("/root/.ssh/authorized_keys"))
	if len(entries) != 1 || string(text) != "root's\n" {
		t.Errorf("%v %q %v", entries, text, err)
	}
}

func TestAFileIsReplacedOnlyWhenItChanges(t *testing.T) {
	d := testDisk(t)
	for i, want := range []bool{true, false} {
		changed, err := d.write("/etc/munge/munge.key", []byte("secret"), 0o400, nil)
		if err != nil || changed != want {
			t.Errorf("write %d: %v %v", i, changed, err)
		}
	}
	info, err := os.Stat(d.path("/etc/munge/munge.key"))
	must(t, err)
	if info.Mode().Perm() != 0o400 {
		t.Error(info.Mode())
	}
}

func TestListeningPortsAreFoundInTheKernelsTable(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0A4D0002:1AA1 0A4D0001:8F2C 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
`
	if !listensIn(table, 22) || listensIn(table, 6817) || listensIn(table, 0x8F2C) || listensIn("", 22) {
		t.Error("wrong")
	}
}

func TestAHeadKeepsItsHostKeyAndOtherNodesMakeNewOnes(t *testing.T) {
	for name, keeps := range map[string]bool{"a head": true, "another node": false} {
		kept, keys := t.TempDir(), map[string]bool{}
		for range 2 {
			s := system{disk: disk{root: t.TempDir(), chown: os.Chown}} // each boot has files of its own
			if keeps {
				must(t, os.MkdirAll(s.disk.path("/var/lib"), 0o755))
				must(t, os.Symlink(kept, s.disk.path(protocol.StateDir)))
			}
			public, err := s.hostKey("root@head")
			must(t, err)
			private, err := s.disk.read(hostKeyFile)
			must(t, err)
			if half, err := publicHalf(private, "root@head"); err != nil || half != public {
				t.Errorf("%s: sshd's key is %q, told was %q: %v", name, half, public, err)
			}
			info, err := os.Stat(s.disk.path(hostKeyFile))
			must(t, err)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v", name, info.Mode())
			}
			keys[public] = true
		}
		if same := len(keys) == 1; same != keeps {
			t.Errorf("%s: one key at both boots is %t, want %t", name, same, keeps)
		}
	}
}
