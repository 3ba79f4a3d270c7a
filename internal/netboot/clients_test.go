package netboot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/inventory"
)

const clientMAC = "52:54:00:00:01:01"

// dhclientHook stands in for the system's, which would change files of this host.
const dhclientHook = `#!/bin/sh
case "$reason" in
BOUND|RENEW|REBIND|REBOOT) ip addr replace "$new_ip_address/$new_subnet_mask" dev "$interface" ;;
RELEASE|EXPIRE) ip addr flush dev "$interface" ;;
esac
echo "$reason" >>%[1]s/reasons
`

// A stock DHCP client gets an address, renews it, keeps it over a restart, and gives it back.
func TestAStockClientGetsRenewsAndReleasesItsLease(t *testing.T) {
	s := newSegment(t)
	controller := newController(clientMAC)
	s.serve(inventory.ModeOwn, controller, newFolder(t), nil)
	ns, dir := s.host(clientMAC), t.TempDir()
	hook := filepath.Join(dir, "hook")
	if err := os.WriteFile(hook, fmt.Appendf(nil, dhclientHook, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := fileOf(t, "supersede dhcp-renewal-time 2;\n")
	args := []string{program(t, "dhclient"), "-4", "-v", "-cf", conf, "-sf", hook, "-lf", dir + "/leases", "-pf", dir + "/pid"}
	reason := func(want string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(dir + "/reasons")
			return strings.Contains(string(text), want+"\n")
		}
	}

	run(t, ns, append(args, "-d", "eth0")...)
	eventually(t, 2*time.Minute, "dhclient is bound", reason("BOUND"))
	if got := output(t, in(ns, "ip", "-o", "-4", "addr", "show", "dev", "eth0")); !strings.Contains(got,
		controller.leaseOf(clientMAC).String()+"/16") {
		t.Fatalf("eth0 has %q, not the lease %s", got, controller.leaseOf(clientMAC))
	}
	eventually(t, 2*time.Minute, "dhclient has renewed by unicast", reason("RENEW"))
	// A new client that finds the old lease asks for the same address again (INIT-REBOOT); then it gives it back.
	output(t, in(ns, append(args, "-x")...))
	output(t, in(ns, append(args, "-1", "eth0")...))
	eventually(t, 2*time.Minute, "dhclient is bound again", reason("REBOOT"))
	output(t, in(ns, append(args, "-r", "eth0")...))
	eventually(t, 2*time.Minute, "the lease is released", func() bool { return !controller.leaseOf(clientMAC).IsValid() })
}

// A client that is not enrolled hears nothing.
func TestAnUnknownClientHearsNothing(t *testing.T) {
	s := newSegment(t)
	s.serve(inventory.ModeOwn, newController(), newFolder(t), nil)
	said, err := in(s.host(clientMAC), program(t, "busybox"), "udhcpc", "-f", "-n", "-q", "-t", "2", "-T", "1", "-s", "/bin/true",
		"-i", "eth0").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "no lease, failing") {
		t.Fatalf("%v: %s", err, said)
	}
}

// Stock clients fetch the same bytes by TFTP and HTTP, whole and in parts.
func TestStockClientsFetchFiles(t *testing.T) {
	s := newSegment(t)
	blobs := newFolder(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	digest := blobs.add(t, content)
	s.serve(inventory.ModeOff, newController(), blobs, nil)
	ns := s.host(clientMAC)
	output(t, in(ns, "ip", "addr", "add", "10.78.1.1/16", "dev", "eth0"))
	want, err := os.ReadFile("/usr/lib/ipxe/snponly.efi")
	if err != nil {
		t.Fatal(err)
	}
	base, out := "http://10.78.0.1:8069/boot/v1/", filepath.Join(t.TempDir(), "out")
	curl := program(t, "curl")
	for _, c := range []struct {
		name string
		args []string
		want []byte
	}{
		{"tftp-hpa", []string{program(t, "tftp"), "-m", "binary", "10.78.0.1", "-c", "get", "snponly.efi", out}, want},
		{"curl, TFTP with blksize and tsize", []string{curl, "-sS", "--tftp-blksize", "1428", "-o", out,
			"tftp://10.78.0.1/snponly.efi"}, want},
		{"curl, TFTP without options", []string{curl, "-sS", "--tftp-no-options", "-o", out, "tftp://10.78.0.1//snponly.efi"},
			want},
		{"busybox, TFTP", []string{program(t, "busybox"), "tftp", "-g", "-b", "1000", "-r", "snponly.efi", "-l", out,
			"10.78.0.1"}, want},
		{"curl, firmware by HTTP", []string{curl, "-sSf", "-o", out, base + "firmware/snponly.efi"}, want},
		{"curl, a blob", []string{curl, "-sSf", "-o", out, base + "blob/" + digest}, content},
		{"curl, a part", []string{curl, "-sSf", "-r", "1000000-", "-o", out, base + "blob/" + digest}, content[1000000:]},
		{"curl, an initramfs", []string{curl, "-sSf", "-o", out, base + "initramfs/" + digest}, content},
	} {
		t.Run(c.name, func(t *testing.T) {
			output(t, in(ns, c.args...))
			got, err := os.ReadFile(out)
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%d bytes, not the %d of the file (%v)", len(got), len(c.want), err)
			}
		})
	}
}

// siteServer runs a site's own DHCP server, dnsmasq, with the options in a file that it reads again at SIGHUP.
func (s *segment) siteServer(options string) daemon {
	s.t.Helper()
	ns := s.host("52:54:00:00:02:02")
	output(s.t, in(ns, "ip", "addr", "add", "10.78.0.2/16", "dev", "eth0"))
	return run(s.t, ns, program(s.t, "dnsmasq"), "--keep-in-foreground", "--log-facility=-", "--conf-file=/dev/null",
		"--user=root", "--port=0", "--pid-file=",
		"--interface=eth0", "--bind-interfaces", "--no-ping", "--log-dhcp", "--dhcp-range=10.78.2.10,10.78.2.90,1h",
		"--dhcp-leasefile="+s.t.TempDir()+"/leases", "--dhcp-optsfile="+options)
}

// Beside a site's own DHCP server, dnsmasq, machines get their addresses from it and what to boot from us; a client that
// does not boot, or that is not known, hears of us nothing.
func TestBesideTheSitesOwnServer(t *testing.T) {
	s := newSegment(t)
	s.siteServer(fileOf(t, ""))
	controller := newController(bootMAC)
	steps := s.bootsKernel(machine{name: "BIOS", device: "virtio-net-pci"}, inventory.ModeProxy, controller)
	if steps[0] != "script" {
		t.Errorf("steps %v: the address was another server's to give", steps)
	}
	if controller.committed != 0 {
		t.Errorf("%d leases were given beside the site's server", controller.committed)
	}
}
