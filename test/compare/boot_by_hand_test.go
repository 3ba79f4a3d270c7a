package compare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/boot/images"
	"muster/internal/boot/initramfs"
	"muster/internal/kit/netns"
	"muster/internal/protocol"
	"muster/internal/rack"
)

// byHand boots the rack's machine as an administrator does who knows how: a bridge, dnsmasq, nginx with a folder of files,
// and QEMU. Its iPXE need not wait: it is told that there is no ProxyDHCP, and gets router advertisements.
type byHand struct {
	*bench
	mac     string
	address string   // with prefix length
	qemu    []string // the rack's own command
}

// learn boots the machine once as a node, to do by hand exactly the same. The controller tells a machine's plan to the machine
// alone, so it is read from the frames that go out of the switch at the machine's port. It returns how many seconds ours took.
func (y testbed) learn(t *testing.T, file string) (*byHand, float64) {
	t.Helper()
	dir := rack.Folder(y.Data + "-rack")
	machine := rack.Shape{Machines: 1, NICs: 1}.Plan()[0]
	h := &byHand{bench: newBench(t), mac: machine.MACs[0]}
	const answers = "tcp src port 8069 and tcp[(tcp[12] & 0xf0) >> 2 : 4] = 0x48545450" // frames that begin with HTTP
	port := command(t, "nsenter", "--net="+dir.Netns(), "tcpdump", "-lAi", machine.Ports[0], answers)
	var heard, said bytes.Buffer
	port.Stdout, port.Stderr = &heard, &said
	if err := port.Start(); err != nil {
		t.Fatal(err)
	}
	took := y.create(file)
	if err := errors.Join(port.Process.Signal(syscall.SIGTERM), port.Wait()); err != nil {
		t.Fatalf("tcpdump: %v\n%s", err, said.String())
	}
	const begins = `{"root":`
	_, text, _ := strings.Cut(heard.String(), begins)
	var plan protocol.Plan
	if err := json.NewDecoder(strings.NewReader(begins + text)).Decode(&plan); err != nil {
		t.Fatalf("the machine was sent no plan in one frame: %v\n%.2000s", err, heard.String())
	}
	line := y.Run("ssh", "boot", "--", "srun", "-w", "n1", "cat", "/proc/cmdline")
	h.qemu = h.takeCommand(string(dir))
	h.lay(y, plan, strings.TrimSpace(line))
	y.Run("delete", "boot", "--wait", "--timeout", "5m")
	return h, took
}

// takeCommand is the command line of the rack's machine that runs, with files of our own: its console, its disk, its tap.
func (h *byHand) takeCommand(rack string) []string {
	h.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, []byte("qemu-system-x86_64\x00")) || !bytes.Contains(text, []byte(rack+"/")) {
			continue
		}
		args := strings.Split(strings.Trim(string(text), "\x00"), "\x00")
		monitor := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "socket,id=monitor") })
		args = slices.Delete(args, monitor-1, monitor+3) // -chardev socket -mon …
		for i := range args {
			args[i] = regexp.MustCompile(`tap,id=nic0,fd=\d+`).
				ReplaceAllString(args[i], "tap,id=nic0,ifname=tap0,script=no,downscript=no")
			args[i] = regexp.MustCompile(regexp.QuoteMeta(rack)+`/[^,]*/`).ReplaceAllString(args[i], h.dir+"/")
		}
		return args
	}
	h.Fatalf("no machine of %s runs", rack)
	return nil
}

// lay makes the network, and the folder that nginx serves.
func (h *byHand) lay(y testbed, plan protocol.Plan, line string) {
	h.Helper()
	for _, args := range []string{
		"ip link del srv", "ip link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
		"ip addr add 10.78.0.1/16 dev br0", "ip addr add fd78::1/64 dev br0 nodad",
		"ip link set br0 up", "ip tuntap add dev tap0 mode tap vnet_hdr", "ip link set tap0 master br0 up",
	} {
		h.run("server", strings.Fields(args)...)
	}
	h.address = regexp.MustCompile(`muster\.address=(\S+)/`).FindStringSubmatch(line)[1]
	line = strings.Replace(line, ":8069", ":8080", 1)
	h.file("boot.ipxe", fmt.Appendf(nil,
		"#!ipxe\nkernel --name kernel http://10.78.0.1:8080/vmlinuz %s\ninitrd --name initrd "+
			"http://10.78.0.1:8080/initramfs\nboot\n", line))

	manifest, err := images.ReadManifest(y.image)
	if err != nil || manifest.Digest != plan.Root.Digest {
		h.Fatalf("the machine boots %+v, not the image in %s: %v", plan, y.image, err)
	}
	init, err := initramfs.Archive()
	if err != nil {
		h.Fatal(err)
	}
	drivers, err := os.ReadFile(filepath.Join(y.image, images.DriversFile))
	if err != nil {
		h.Fatal(err)
	}
	h.file("initramfs", append(init, drivers...))
	text, err := json.Marshal(plan)
	if err != nil {
		h.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(h.dir, protocol.BlobPath), 0o755); err != nil {
		h.Fatal(err)
	}
	h.file(protocol.PlanPath, text)
	for name, target := range map[string]string{
		"vmlinuz":                             filepath.Join(y.image, images.KernelFile),
		protocol.BlobPath + plan.Root.Digest:  filepath.Join(y.image, images.SquashfsFile),
		protocol.BlobPath + plan.Agent.Digest: y.Binary,
	} {
		if err := os.Symlink(target, filepath.Join(h.dir, name)); err != nil && !os.IsExist(err) {
			h.Fatal(err)
		}
	}
}

// boot boots the machine once. It returns after how many seconds its agent spoke to the controller that the plan names.
func (h *byHand) boot() float64 {
	h.Helper()
	nginx := h.bench.command("server", "/usr/sbin/nginx", "-c", h.file("nginx.conf", fmt.Appendf(nil, nginxConf, h.dir)))
	dnsmasq := h.bench.command("server", "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--user=root", "--port=0",
		"--interface=br0", "--except-interface=lo",
		"--bind-interfaces", "--dhcp-authoritative", "--no-ping", "--leasefile-ro", "--dhcp-range=10.78.0.0,static,1h",
		"--dhcp-host="+h.mac+","+h.address,
		"--dhcp-option=encap:175,176,1b", "--enable-ra", "--dhcp-range=fd78::,ra-only",
		"--dhcp-boot=http://10.78.0.1:8080/boot.ipxe")
	return h.with(nginx, ":8080", func() float64 { return h.with(dnsmasq, ":67", h.machine) })
}

func (h *byHand) machine() float64 {
	h.Helper()
	door, err := netns.Listen(filepath.Join(h.dir, "server"), "tcp", "10.78.0.1:7421")
	if err != nil {
		h.Fatal(err)
	}
	defer door.Close()
	disk := filepath.Join(h.dir, "disk0.raw")
	if err := os.Remove(disk); err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	if err := os.Truncate(h.file("disk0.raw", nil), 8<<30); err != nil {
		h.Fatal(err)
	}
	said := &bytes.Buffer{}
	qemu := h.bench.command("server", h.qemu...)
	qemu.Stdout, qemu.Stderr = said, said
	begin := time.Now()
	if err := qemu.Start(); err != nil {
		h.Fatal(err)
	}
	defer func() {
		_ = qemu.Process.Kill()
		_ = qemu.Wait()
	}()
	_ = door.(*net.TCPListener).SetDeadline(begin.Add(3 * time.Minute))
	conn, err := door.Accept()
	if err != nil {
		console, _ := os.ReadFile(filepath.Join(h.dir, "console.log"))
		h.Fatalf("%v\n%s\n%s", err, said, console[max(0, len(console)-3000):])
	}
	defer conn.Close()
	return time.Since(begin).Seconds()
}
