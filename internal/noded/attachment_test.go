package noded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// namespace is an empty network namespace of the test's own.
func namespace(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	path := filepath.Join(t.TempDir(), "netns")
	must(t, netns.New(path, func() error { return nil }))
	t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

func inside(t *testing.T, path, command string) string {
	t.Helper()
	var out []byte
	err := netns.Do(path, func() (err error) {
		out, err = exec.Command("sh", "-c", command).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

const nicMAC = "52:54:00:00:00:01"

// machine is a namespace with a NIC, whose other end is in the namespace "segment".
func machine(t *testing.T) (machine, segment string) {
	t.Helper()
	machine, segment = namespace(t), namespace(t)
	inside(t, segment, "ip link add port type veth peer name eth0 address "+nicMAC+" netns "+machine+
		" && ip addr add 10.78.0.1/16 dev port && ip link set port up")
	inside(t, machine, "ip addr add 10.78.0.11/16 dev eth0 && ip link set eth0 up")
	return machine, segment
}

func TestTheClustersNetworkLiesOverTheNIC(t *testing.T) {
	path, segment := machine(t)
	a := protocol.Attachment{NIC: nicMAC, MAC: "02:4d:00:01:02:00", Address: "10.77.2.0/16"}
	for range 2 { // the second time over the first
		must(t, netns.Do(path, func() error { return attach(a) }))
	}
	for _, s := range settings {
		if strings.HasPrefix(s.name, "net/ipv4/conf/") { // others are the host's
			inside(t, path, "echo "+s.value+" > /proc/sys/"+s.name)
		}
	}
	link := inside(t, path, "ip -d link show cluster0")
	for _, part := range []string{"NOARP", "UP", "macvlan mode bridge", "02:4d:00:01:02:00"} {
		if !strings.Contains(link, part) {
			t.Errorf("no %s in %s", part, link)
		}
	}
	if addresses := inside(t, path, "ip -o addr show cluster0"); strings.Count(addresses, "\n") != 1 ||
		!strings.Contains(addresses, "10.77.2.0/16") {
		t.Errorf("addresses: %s", addresses)
	}

	head := protocol.Neighbour{Address: "10.77.0.2", MAC: "02:4d:00:01:00:02"}
	gateway := protocol.Neighbour{Address: "10.77.0.1", MAC: "02:4d:00:01:00:01"}
	for _, all := range [][]protocol.Neighbour{{head, gateway}, {head}} {
		must(t, netns.Do(path, func() error { return kernelNeighbours{}.set(a.MAC, all) }))
		if got := strings.Count(inside(t, path, "ip neigh show dev cluster0 nud permanent"), "\n"); got != len(all) {
			t.Errorf("%d permanent neighbours, want %d", got, len(all))
		}
	}

	// A peer on the segment that knows the node reaches it; who asks by ARP for its address hears nothing.
	inside(t, segment, "ip addr add 10.77.0.2/16 dev port && ip link set port address "+head.MAC)
	if output := inside(t, segment, "busybox arping -s 10.78.0.1 -c2 -w2 -I port 10.77.2.0 || true"); strings.Contains(output,
		"reply from") {
		t.Errorf("the machine tells who has the cluster's address: %s", output)
	}
	if output := inside(t, segment, "busybox arping -c1 -w60 -I port 10.78.0.11"); !strings.Contains(output, "reply from") {
		t.Errorf("the machine does not tell its own address: %s", output)
	}
	inside(t, segment, "ip neigh replace 10.77.2.0 lladdr "+a.MAC+" dev port nud permanent && busybox ping -c1 -W60 10.77.2.0")
	// By the NIC's own MAC, as another cluster's node would come, it does not.
	inside(t, segment, "ip neigh replace 10.77.2.0 lladdr "+nicMAC+" dev port nud permanent && ! busybox ping -c1 -W1 10.77.2.0")
}

func TestAnAttachmentToNoNICSaysWhichThereAre(t *testing.T) {
	path, _ := machine(t)
	err := netns.Do(path, func() error {
		return attach(protocol.Attachment{NIC: "52:54:00:00:00:02", MAC: "02:4d:00:01:02:00", Address: "10.77.2.0/16"})
	})
	if err == nil || !strings.Contains(err.Error(), "52:54:00:00:00:02") || !strings.Contains(err.Error(), "eth0 ("+nicMAC+")") {
		t.Error(err)
	}
}

// TestALeaseIsExtended asks a DHCP server that others wrote.
func TestALeaseIsExtended(t *testing.T) {
	server, err := exec.LookPath("dnsmasq")
	if err != nil {
		t.Skip("skipped: dnsmasq is not installed")
	}
	path, segment := machine(t)
	leases := filepath.Join(t.TempDir(), "leases")
	must(t, os.WriteFile(leases, fmt.Appendf(nil, "%d %s 10.78.0.11 * *\n", time.Now().Add(time.Minute).Unix(), nicMAC), 0o644))
	process := exec.Command(server, "--no-daemon", "--conf-file=/dev/null", "--user=root", "--port=0", "--interface=port",
		"--bind-interfaces",
		"--dhcp-authoritative", "--no-ping", "--dhcp-range=10.78.0.10,10.78.0.20,600", "--dhcp-leasefile="+leases, "--pid-file=")
	must(t, netns.Do(segment, process.Start))
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	booted := protocol.BootNetwork{NIC: "eth0", MAC: nicMAC, Address: "10.78.0.11/16", By: "dhcp", Server: "10.78.0.1",
		LeaseSeconds: 60}
	var next time.Duration
	must(t, netns.Do(path, func() (err error) {
		for range 3 { // the server may still be starting
			if next, err = extendLease(t.Context(), booted); err == nil {
				return nil
			}
		}
		return err
	}))
	if next != 10*time.Minute {
		t.Errorf("the lease is %v long", next)
	}
}
