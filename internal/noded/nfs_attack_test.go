package noded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/protocol"
	"muster/test/nfsclient"
)

// The people of the cluster that the attacks are on. What a node that mounts /home may not do, no other may.
const (
	aliceUID = 5000
	bobUID   = 5001
)

const bridgeMAC = "02:00:0a:63:ff:fe"

var alice = nfsclient.Who{UID: aliceUID, GID: aliceUID}

// servedHome is a real head that serves a /home of its own file system, and nodes that mount it, played by addresses.
type servedHome struct {
	*rack
	head  protocol.Peer
	disk  string // where the host has /home
	peers []protocol.Peer
	last  int64 // revision
}

// serveHome boots a head whose /home holds the home of alice, her file "secret" (0600) among it, and waits until these
// nodes may mount it.
func serveHome(t *testing.T, mounts ...string) *servedHome {
	t.Helper()
	s := newServedHome(t, "mkfs.xfs")
	s.start(t, mounts...)
	return s
}

// start boots the head, for these nodes.
func (s *servedHome) start(t *testing.T, mounts ...string) {
	t.Helper()
	s.mount(mounts...)
	s.boot(t, s.head)
	s.controller.until(t, "a head that serves", func() bool { return s.controller.healthy("head") })
	secret := filepath.Join(s.disk, "alice/secret")
	must(t, os.WriteFile(secret, []byte("alice's"), 0o600))
	must(t, os.Chown(secret, aliceUID, aliceUID))
}

// newServedHome is all that the head needs, before it boots; this program makes the file system of /home.
func newServedHome(t *testing.T, maker string) *servedHome {
	t.Helper()
	if _, err := exec.LookPath(maker); err != nil {
		t.Skipf("skipped: there is no %s", maker)
	}
	r := newRack(t)
	r.closed = true
	s := &servedHome{rack: r, head: testPeer("head", 0, protocol.Head), disk: filepath.Join(r.dir, "home")}
	image := filepath.Join(r.dir, "home.img")
	r.sh(t, "truncate -s 300M '%s' && %s -q '%s' && mount -o loop,nosuid,nodev '%s' '%s'", image, maker, image, image, s.disk)
	t.Cleanup(func() { r.sh(t, "umount '%s'", s.disk) })
	r.plug(t, s.head)
	r.sh(t, "ip -n %s link set br0 address %s", r.net, bridgeMAC) // all nodes but the head are at the bridge
	for i := 10; i < 20; i++ {
		r.sh(t, "ip -n %s addr add 10.99.0.%d/16 dev br0", r.net, i)
	}
	return s
}

// mount makes exactly the nodes with these addresses be the cluster's that mount /home.
func (s *servedHome) mount(addresses ...string) {
	s.last++
	s.peers = []protocol.Peer{s.head}
	for i, address := range addresses {
		p := testPeer(fmt.Sprintf("m%d", i), 9+i, protocol.Compute)
		p.Address, p.MAC, p.Mounts = address, bridgeMAC, true
		s.peers = append(s.peers, p)
	}
	// One more, which has its /home by itself.
	beside := testPeer("beside", 18, protocol.Compute)
	beside.Address, beside.MAC = "10.99.0.19", bridgeMAC
	s.peers = append(s.peers, beside)
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.key.PublicKey())))
	s.controller.set("head", protocol.Config{
		Revision: s.last, Cluster: "test", ClusterID: "c1", Self: s.head, Peers: s.peers, ExportHome: true, Scheduler: "none",
		Users: []protocol.User{{Name: "alice", UID: aliceUID, Keys: []string{key}}, {Name: "bob", UID: bobUID}},
		SSH: protocol.SSH{UserCA: key,
			HostCA: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.controller.hostCA.PublicKey())))},
	})
}

// applied waits until the head has applied the newest configuration.
func (s *servedHome) applied(t *testing.T) {
	t.Helper()
	s.controller.until(t, "the configuration applied", func() bool { return s.controller.reports["head"].Revision == s.last })
}

func (s *servedHome) server() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(s.head.Address), nfsPort)
}

// from connects from an address, by a port that only root has or, if not privileged, one that anybody has.
func (s *servedHome) from(t *testing.T, address string, privileged bool, who nfsclient.Who) *nfsclient.Client {
	t.Helper()
	var c *nfsclient.Client
	must(t, netns.Do("/run/netns/"+s.net, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if privileged {
			c, err = nfsclient.Privileged(ctx, s.server(), netip.MustParseAddr(address), who)
		} else {
			c, err = nfsclient.Dial(ctx, s.server(), netip.AddrPortFrom(netip.MustParseAddr(address), 0), who)
		}
		return err
	}))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// secret is the handle of alice's file, as a node that mounts is given it.
func (s *servedHome) secret(t *testing.T, c *nfsclient.Client) nfsclient.Handle {
	t.Helper()
	h, _, err := c.LookUp(nil, "home", "alice", "secret")
	must(t, err)
	text, err := c.Read(h, 0, 100)
	must(t, err)
	if string(text) != "alice's" {
		t.Fatalf("alice reads %q", text)
	}
	return h
}

// refusesAll tries what a client can try without being told anything, and with a handle that it has from somewhere.
func refusesAll(t *testing.T, who string, c *nfsclient.Client, secret nfsclient.Handle) {
	t.Helper()
	if _, _, err := c.LookUp(nil, "home"); !errors.Is(err, nfsclient.NoEntry) {
		t.Errorf("%s looks for /home: %v", who, err)
	}
	if names, err := c.ReadDir(nil); err == nil && len(names) > 0 {
		t.Errorf("%s sees %q", who, names)
	}
	_, attributes := c.Attributes(secret)
	text, read := c.Read(secret, 0, 100)
	write := c.Write(secret, 0, []byte("mallory"))
	chmod := c.Chmod(secret, 0o666)
	_, _, parent := c.Parent(secret)
	for what, err := range map[string]error{"attributes": attributes, "read": read, "write": write, "chmod": chmod,
		"parent": parent} {
		if err == nil {
			t.Errorf("%s: %s is answered; read %q", who, what, text)
		}
	}
}

// From most ordinary ports no connection comes to be; the last one is left to the server itself.
func TestAnOrdinaryPortIsNotServed(t *testing.T) {
	s := serveHome(t, "10.99.0.10")
	secret := s.secret(t, s.from(t, "10.99.0.10", true, alice))
	for _, from := range []string{"10.99.0.10:0", "10.99.0.10:1024", "10.99.0.10:65535"} {
		last, within := strings.HasSuffix(from, "65535"), time.Second
		if last {
			within = 20 * time.Second
		}
		var c *nfsclient.Client
		err := netns.Do("/run/netns/"+s.net, func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			c, err = nfsclient.Dial(ctx, s.server(), netip.MustParseAddrPort(from), alice)
			return err
		})
		if err == nil {
			refusesAll(t, "a process without root, from "+from, c, secret)
			_ = c.Close()
		} else if last {
			t.Error(err)
		}
	}
}

func TestAnAddressThatIsNoNodesIsNotServed(t *testing.T) {
	s := serveHome(t, "10.99.0.10")
	secret := s.secret(t, s.from(t, "10.99.0.10", true, alice))
	for who, address := range map[string]string{"the gateway": "10.99.0.254", "a node that has /home by itself": "10.99.0.19",
		"nobody": "10.99.0.15"} {
		refusesAll(t, who, s.from(t, address, true, alice), secret)
	}
	// The head itself may look, and no more.
	head := filepath.Join("/run/netns", s.net+s.head.Name)
	for _, address := range []string{s.head.Address, "127.0.0.1"} {
		var c *nfsclient.Client
		must(t, netns.Do(head, func() (err error) {
			c, err = nfsclient.Privileged(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(address), nfsPort), netip.Addr{},
				alice)
			if errors.Is(err, unix.ECONNREFUSED) { // it does not listen there
				err = nil
			}
			return err
		}))
		if c == nil {
			continue
		}
		defer c.Close()
		if text, err := c.Read(secret, 0, 100); err == nil {
			t.Errorf("the head reads %q by NFS from %s", text, address)
		}
		if err := c.Write(secret, 0, []byte("x")); err == nil {
			t.Errorf("the head writes by NFS from %s", address)
		}
		if err := c.Chmod(secret, 0o666); err == nil {
			t.Errorf("the head changes modes by NFS from %s", address)
		}
	}
}

// TestAnAddressThatLeftIsNotServed lets nodes come and go while another one works with an open file.
func TestAnAddressThatLeftIsNotServed(t *testing.T) {
	s := serveHome(t, "10.99.0.10", "10.99.0.11")
	stays, leaves, comes := s.from(t, "10.99.0.10", true, alice), s.from(t, "10.99.0.11", true, alice),
		s.from(t, "10.99.0.12", true, alice)
	secret := s.secret(t, stays)
	s.secret(t, leaves)
	refusesAll(t, "who is to come", comes, secret)
	home, _, err := stays.LookUp(nil, "home", "alice")
	must(t, err)
	file, open, err := stays.Open(home, "work", true)
	must(t, err)
	gone, state, err := leaves.Open(home, "last", true)
	must(t, err)

	var working sync.WaitGroup
	stop := make(chan struct{})
	working.Go(func() {
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			line := fmt.Appendf(nil, "%08d", n)
			if err := stays.WriteOpen(file, open, n%1000*8, line); err != nil {
				t.Errorf("write %d of a node that stays: %v", n, err)
				return
			}
			if text, err := stays.ReadOpen(file, open, n%1000*8, 8); err != nil || string(text) != string(line) {
				t.Errorf("read %d of a node that stays: %q, %v", n, text, err)
				return
			}
		}
	})
	for _, addresses := range [][]string{{"10.99.0.10", "10.99.0.12"}, {"10.99.0.10", "10.99.0.12", "10.99.0.13"},
		{"10.99.0.12", "10.99.0.10"}} {
		s.mount(addresses...)
		s.applied(t)
	}
	settled := func() bool { _, err := leaves.Attributes(secret); return err != nil }
	for end := time.Now().Add(2 * time.Minute); !settled() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	refusesAll(t, "a node that left, on its old connection", leaves, secret)
	if err := leaves.WriteOpen(gone, state, 0, []byte("x")); err == nil {
		t.Error("a node that left writes to a file that it had open")
	}
	refusesAll(t, "a node that left, on a new one", s.from(t, "10.99.0.11", true, alice), secret)
	s.secret(t, comes)
	close(stop)
	working.Wait()
	must(t, stays.CloseFile(file, open))

	s.mount("10.99.0.10", "10.99.0.11") // it comes back
	s.applied(t)
	back := func() bool { _, err := leaves.Attributes(secret); return err == nil }
	for end := time.Now().Add(2 * time.Minute); !back() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	s.secret(t, leaves)
}

// A handle of nfs-ganesha's FSAL_VFS is: 4 bytes with the export's number, the length of what follows, a byte that says how
// the file system's number is written, that number of 8 or 16 bytes, the kind of the kernel's handle, and that handle: on
// ext4 the inode and its generation, for which 0 is any.
func forge(real nfsclient.Handle, inode, generation uint32) nfsclient.Handle {
	forged := slices.Clone(real)
	at := handleAt(real)
	binary.LittleEndian.PutUint32(forged[at:], inode)
	binary.LittleEndian.PutUint32(forged[at+4:], generation)
	return forged
}

// handleAt is where the kernel's handle begins.
func handleAt(real nfsclient.Handle) int {
	if real[5]&fsidKinds == 3 {
		return 6 + 16 + 1
	}
	return 6 + 8 + 1
}

const (
	fsidKinds  = 0x07 // of the sixth byte
	kindInByte = 0x40 // in it: the kind of the kernel's handle is one byte
)

// TestAForgedHandleLeadsNowhere asks, as root of a node that mounts may, for every inode that there may be, under the
// numbers of all file systems that there are.
func TestAForgedHandleLeadsNowhere(t *testing.T) {
	s := newServedHome(t, "mkfs.ext4") // which takes generation 0 for any, unlike XFS
	s.start(t, "10.99.0.10")
	// Files outside of /home with modes and owners that a client can claim: on the disk that the head's folders are on, in its
	// root, and in what is mounted there.
	outside := "not for clients"
	var inodes []uint32
	for _, dir := range []string{s.dir, filepath.Join(s.dir, "head/up"), filepath.Join(s.dir, "head/run"), "/dev/shm", "/run"} {
		f, err := os.CreateTemp(dir, "outside")
		if err != nil {
			t.Logf("no file in %s: %v", dir, err)
			continue
		}
		t.Cleanup(func() { _ = os.Remove(f.Name()) })
		_, err = f.WriteString(outside)
		must(t, errors.Join(err, f.Chmod(0o666), f.Close()))
		var st unix.Stat_t
		must(t, unix.Stat(f.Name(), &st))
		inodes = append(inodes, uint32(st.Ino))
	}
	c := s.from(t, "10.99.0.10", true, alice)
	secret := s.secret(t, c)
	_, own, err := c.LookUp(nil, "home", "alice", "secret")
	must(t, err)
	at := handleAt(secret)
	if got := binary.LittleEndian.Uint32(secret[at:]); uint64(got) != own.Inode {
		t.Fatalf("handle % x is not understood: %d is not inode %d", secret, got, own.Inode)
	}
	// By the number of /home's file system one gets to its own files alone: all that are found are there.
	known := map[uint64]string{}
	must(t, filepath.WalkDir(s.disk, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
			known[st.Ino] = path
		}
		return err
	}))
	sweep := inodes
	for n := range uint32(30000) {
		sweep = append(sweep, n)
	}
	found := 0
	for _, n := range sweep {
		h := forge(secret, n, 0)
		a, err := c.Attributes(h)
		if err != nil {
			continue
		}
		found++
		if _, ok := known[a.Inode]; !ok || a.FSID != own.FSID {
			t.Errorf("inode %d leads to %+v, which is not in /home", n, a)
		}
		if text, err := c.Read(h, 0, 100); err == nil && strings.Contains(string(text), outside) {
			t.Errorf("inode %d is read: %q", n, text)
		}
	}
	if found == 0 {
		t.Error("the sweep found nothing, not even alice's file: it proves nothing")
	}
	t.Logf("%d of %d inodes are answered, all of /home", found, len(sweep))
	// By numbers of other file systems, each as ganesha writes them, one gets nowhere.
	for _, path := range []string{"/", s.dir, filepath.Join(s.dir, "head/root"), filepath.Join(s.dir, "image"), "/run",
		"/dev/shm", "/proc", "/sys", "/tmp"} {
		var fs unix.Statfs_t
		must(t, unix.Statfs(path, &fs))
		for _, id := range [][]uint64{{uint64(uint32(fs.Fsid.Val[0])), uint64(uint32(fs.Fsid.Val[1]))}, {0, 0},
			{^uint64(0), ^uint64(0)}} {
			for _, n := range append([]uint32{0, 1, 2, 128}, inodes...) {
				for _, kind := range []byte{0, 1, 2, 0x81} {
					if slices.ContainsFunc(forgeries(secret, id, kind, n), func(h nfsclient.Handle) bool {
						_, err := c.Attributes(h)
						return err == nil && string(h) != string(secret)
					}) {
						t.Errorf("inode %d of %s is reached", n, path)
					}
				}
			}
		}
	}
	// Up from the root there is only the server's own, empty but for home; and links are told, not followed.
	home, _, err := c.LookUp(nil, "home")
	must(t, err)
	top, _, err := c.Parent(home)
	must(t, err)
	if names, err := c.ReadDir(top); err != nil || !slices.Equal(names, []string{"home"}) {
		t.Errorf("above /home: %q, %v", names, err)
	}
	if _, _, err := c.Parent(top); err == nil {
		t.Error("there is something above the server's root")
	}
	alices, _, err := c.LookUp(home, "alice")
	must(t, err)
	link, err := c.Symlink(alices, "way", "/etc/passwd")
	must(t, err)
	if text, err := c.Read(link, 0, 100); err == nil {
		t.Errorf("through a link one reads %q", text)
	}
	if _, _, err := c.LookUp(alices, "way", "x"); err == nil {
		t.Error("through a link one looks names up")
	}
	for _, name := range []string{"..", ".", "../..", "/etc/passwd", "alice/../..", ""} {
		if _, _, err := c.LookUp(home, name); err == nil {
			t.Errorf("the name %q is found", name)
		}
	}
	// Handles that no server gave out, of any length, do not end it.
	for n := range len(secret) + 70 {
		h := append(slices.Clone(secret), make([]byte, 70)...)[:n]
		_, _ = c.Attributes(h)
		if n > 5 {
			h[4] = byte(n)
			_, _ = c.Attributes(h)
		}
	}
	s.secret(t, c)
}

// forgeries are a handle with another file system's number in each way that it can be written.
func forgeries(real nfsclient.Handle, id []uint64, kind byte, inode uint32) (all []nfsclient.Handle) {
	file := binary.LittleEndian.AppendUint32([]byte{kind}, inode)
	file = append(file, 0, 0, 0, 0)
	little := binary.LittleEndian
	for written, number := range map[byte][]byte{
		0: {},
		1: little.AppendUint64(nil, id[0]|id[1]<<32),
		2: little.AppendUint64(nil, id[1]|id[0]<<32),
		3: little.AppendUint64(little.AppendUint64(nil, id[0]), id[1]),
		4: little.AppendUint64(nil, id[0]|id[1]<<32),
		5: little.AppendUint32(little.AppendUint32(nil, uint32(id[0])), uint32(id[1])),
		6: little.AppendUint32(little.AppendUint32(nil, uint32(id[0])), uint32(id[1])),
	} {
		opaque := append(append([]byte{written | kindInByte}, number...), file...)
		all = append(all, append(append(slices.Clone(real[:4]), byte(len(opaque))), opaque...))
	}
	return all
}

// TestIdleConnectionsDoNotStarveMounts tries to take the server's 1024 connections, as a process without root.
func TestIdleConnectionsDoNotStarveMounts(t *testing.T) {
	s := serveHome(t, "10.99.0.10")
	opened := 0
	for _, where := range []string{s.net, s.net + s.head.Name} { // from another node, and on the head itself
		must(t, netns.Do("/run/netns/"+where, func() error {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.server().String())
				cancel()
				if err == nil {
					opened++
					t.Cleanup(func() { conn.Close() })
				}
			}
			return nil
		}))
	}
	if opened > 0 {
		t.Errorf("%d connections from ordinary ports are open", opened)
	}
	s.secret(t, s.from(t, "10.99.0.10", true, alice))
	must(t, netns.Do("/run/netns/"+s.net+s.head.Name, func() error { return served(t.Context(), s.head.Address) }))
}
