package attack_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/test/nfsclient"
)

// A cluster with a guest has a head that serves /home by NFS. Its user asks that server for a neighbour's files, as anybody
// can and as root of the guest could.
func TestTheServerOfHomeUnderAttack(t *testing.T) {
	testall.Only(t)
	for _, program := range []string{"libvirtd", "qemu-system-x86_64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the server of /home is not attacked: there is no %s; `make setup` installs it", program)
		}
	}
	s := newSite(t, "--local-hypervisor")
	hypervisor := regexp.MustCompile(`\S+-hv +vm +available `)
	s.Eventually(2*time.Minute, "the hypervisor is available", func() bool {
		return hypervisor.MatchString(s.Run("machines", "list"))
	})
	s.alice.Run("ssh", "a1", "--", "umask 077; echo the secret of alice > secret")
	s.mallory.Run("create", "-f", s.File("m2.yaml", "name: m2\nisolation: vm\nnodes: 1\n"))
	var m2 struct {
		ID    string
		Nodes []struct{ Name, Phase, Address string }
	}
	s.Eventually(3*time.Minute, "the head of m2 runs", func() bool {
		s.mallory.Get(&m2, "get", "m2")
		return slices.ContainsFunc(m2.Nodes, func(n struct{ Name, Phase, Address string }) bool {
			return n.Name == "head" && n.Phase == "ready"
		})
	})
	var head, guest netip.Addr
	for _, n := range m2.Nodes {
		address := netip.MustParseAddr(n.Address)
		if n.Name == "head" {
			head = address
			continue
		}
		guest = address
	}

	// From the cluster's network with the guest's address, which is all that the server sees of the guest's root.
	network := filepath.Join(s.Data, "local/clusters", m2.ID, "netns")
	bridge := strings.Fields(s.sh("nsenter --net=" + network + " ip -br link show type bridge"))
	s.sh("nsenter --net=" + network + " ip addr add " + guest.String() + "/16 dev " + bridge[0])
	s.Node("m2", "head").Inside("ip neigh replace " + guest.String() + " lladdr " + bridge[2] + " nud permanent dev eth0")
	server := netip.AddrPortFrom(head, 2049)
	as := func(from netip.Addr, privileged bool, who nfsclient.Who) (c *nfsclient.Client, err error) {
		err = netns.Do(network, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if privileged {
				c, err = nfsclient.Privileged(ctx, server, from, who)
			} else {
				c, err = nfsclient.Dial(ctx, server, netip.AddrPortFrom(from, 0), who)
			}
			return err
		})
		return c, err
	}
	root, mallory := nfsclient.Who{}, nfsclient.Who{UID: 10002, GID: 10002}
	for what, open := range map[string]func() (*nfsclient.Client, error){
		"a process without root of the guest": func() (*nfsclient.Client, error) { return as(guest, false, mallory) },
		"an address that is no node's": func() (*nfsclient.Client, error) {
			return as(netip.MustParseAddr("10.77.0.1"), true, root)
		},
	} {
		c, err := open()
		if err != nil {
			continue
		}
		if _, _, err := c.LookUp(nil, "home"); err == nil {
			t.Errorf("%s is served", what)
		}
		_ = c.Close()
	}

	var client *nfsclient.Client
	var home nfsclient.Handle
	var own nfsclient.Attributes
	s.Until("the guest's root is served", func() bool {
		c, err := as(guest, true, root)
		if err != nil {
			return false
		}
		if home, own, err = c.LookUp(nil, "home"); err != nil {
			_ = c.Close()
			return false
		}
		client = c
		return true
	})
	at := bytes.Index(home, binary.LittleEndian.AppendUint32(nil, uint32(own.Inode)))
	if at < 0 || at+8 > len(home) {
		t.Fatalf("handle % x is not understood: no inode %d", home, own.Inode)
	}
	// Every low number, and the numbers of files that are worth a theft.
	sweep := make([]uint32, 0, 21_000)
	for n := range uint32(20_000) {
		sweep = append(sweep, n)
	}
	for _, pattern := range []string{"/etc/shadow", "/", s.Data, s.Data + "/*", s.Data + "/local/clusters/*/*",
		s.Data + "/local/clusters/*/home/*/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			var st unix.Stat_t
			if unix.Stat(path, &st) == nil {
				sweep = append(sweep, uint32(st.Ino))
			}
		}
	}
	answered := 0
	for _, who := range []nfsclient.Who{root, mallory, {UID: 10001, GID: 10001}, {UID: 64030, GID: 64030}, {UID: 4242, GID: 42}} {
		c := client.As(who)
		for _, inode := range sweep {
			for _, generation := range []uint32{0, binary.LittleEndian.Uint32(home[at+4:])} {
				forged := slices.Clone(home)
				binary.LittleEndian.PutUint32(forged[at:], inode)
				binary.LittleEndian.PutUint32(forged[at+4:], generation)
				a, err := c.Attributes(forged)
				if errors.Is(err, net.ErrClosed) {
					t.Fatal("the server has hung up")
				}
				if err != nil {
					continue
				}
				answered++
				if a.FSID != own.FSID {
					t.Errorf("as %d, inode %d is of another file system: %+v", who.UID, inode, a)
				}
				if names, err := c.ReadDir(forged); err == nil &&
					(slices.Contains(names, "etc") || slices.Contains(names, "secret")) {
					t.Errorf("as %d, inode %d lists %q", who.UID, inode, names)
				}
				if text, err := c.Read(forged, 0, 200); err == nil &&
					(bytes.Contains(text, []byte("the secret of alice")) || bytes.Contains(text, []byte("root:"))) {
					t.Errorf("as %d, inode %d says %q", who.UID, inode, text)
				}
			}
		}
	}
	if answered == 0 {
		t.Error("no forged handle at all was answered, not even that of /home itself: nothing was tried")
	}
	t.Logf("%d of %d forged handles were answered, all by m2's own /home", answered, 2*5*len(sweep))
	_ = client.Close()
	s.mallory.Run("delete", "m2", "--wait")
	s.mallory.Run("delete", "m1", "--wait")
	s.alice.Run("delete", "a1", "--wait")
	if text, err := os.ReadFile(s.controller.Log); err != nil || bytes.Contains(text, []byte("the secret of alice")) {
		t.Error("the log", err)
	}
}

// sh runs a shell command of the test's own.
func (s site) sh(command string) string {
	s.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}
