package noded

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/boot/initramfs"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// TestAMachineBootsAsAHypervisorAndHoldsAGuest boots QEMU with the image of hypervisors and this tree's own program, by the way
// that machines boot; under emulation, and in it a guest under emulation again. The machine's CPU is without SVM: QEMU 7.2
// emulates that, too, and a kernel with two CPUs stalled for good in its KVM's first call there.
func TestAMachineBootsAsAHypervisorAndHoldsAGuest(t *testing.T) {
	testall.Only(t)
	inspector := needsGuests(t)
	image := filepath.Join(filepath.Dir(filepath.Dir(inspector)), "debian12-hypervisor/latest")
	if _, err := os.Stat(filepath.Join(image, "vmlinuz")); err != nil {
		t.Skip("skipped: image debian12-hypervisor is not there; `make test-all` builds it")
	}
	dir, blobs, f := t.TempDir(), map[string]string{}, newFakeController(t)
	f.tokens["m1"] = "secret"
	f.patience = 10 * time.Minute // what is emulated emulates a guest: that starts in a minute, and beside other work in two
	program := filepath.Join(dir, "muster")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "muster/cmd/muster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	agents, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f.serve(t, agents)
	_, agentPort, _ := net.SplitHostPort(agents.Addr().String())
	plan := protocol.Plan{
		Root: blob(t, blobs, filepath.Join(image, "root.squashfs")), Agent: blob(t, blobs, program),
		Boot: protocol.BootFile{Node: "m1", Name: "rack-1", Boot: 4, Authority: f.authority,
			Endpoints: []string{"https://10.0.2.2:" + agentPort}, Duty: protocol.Host},
	}
	of := protocol.HostedImage{Digest: "sha256:" + strings.Repeat("1a", 32),
		Root: blob(t, blobs, filepath.Join(inspector, "root.squashfs"))}
	of.Kernel, of.Drivers = blob(t, blobs, filepath.Join(inspector, "vmlinuz")).
		Digest, blob(t, blobs, filepath.Join(inspector, "drivers.cpio.zst")).Digest
	services, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch digest, isBlob := strings.CutPrefix(r.URL.Path, protocol.BlobPath); {
		case isBlob:
			http.ServeFile(w, r, blobs[digest])
		case r.URL.Path == protocol.PlanPath:
			_ = json.NewEncoder(w).Encode(plan)
		}
	})}
	go func() { _ = server.Serve(services) }()
	t.Cleanup(func() { _ = server.Close() })
	_, servicesPort, _ := net.SplitHostPort(services.Addr().String())

	first, err := initramfs.Archive()
	must(t, err)
	drivers, err := os.ReadFile(filepath.Join(image, "drivers.cpio.zst"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "initramfs"), append(append(first, make([]byte, -len(first)&3)...), drivers...),
		0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "qemu64,svm=off",
		"-smp", "2", "-m", "2048", "-nodefaults", "-display", "none", "-vga", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", filepath.Join(image, "vmlinuz"), "-initrd", filepath.Join(dir, "initramfs"),
		"-append", "console=ttyS0 quiet panic=-1 no_timer_check muster.server=http://10.0.2.2:"+servicesPort+" muster.mac="+
			nicMAC+" muster.address=10.0.2.15/24 muster.token=secret",
		"-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=,mac="+nicMAC)
	said, err := qemu.StdoutPipe()
	must(t, err)
	qemu.Stderr = qemu.Stdout
	must(t, qemu.Start())
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			t.Logf("%6.1f %s", time.Since(began).Seconds(), lines.Text())
		}
		_ = qemu.Wait() // it switches itself off, or the test has failed and says why
	}()
	defer func() { cancel(); <-ended }()

	f.until(t, "a hypervisor without guests", func() bool { r, ok := f.hosted["m1"]; return ok && r.Boot == 4 })
	f.mu.Lock()
	if r := f.hosted["m1"]; r.Trouble != "" {
		t.Errorf("it can hold no guest: %s", r.Trouble)
	}
	f.mu.Unlock()
	guest := protocol.HostedGuest{
		Cluster: "c1", Node: "node-1", Boot: 1, Try: 1, Name: "n1", Machine: "rack-1-g1", Address: "10.77.2.1/16",
		MAC: "02:4d:00:07:02:01", Image: of.Digest,
		Allocation: json.RawMessage(`{"guest":"node-1","cells":[{"numa":0,"cores":[1],"memory_mib":384}],"share":4}`),
		Asked:      json.RawMessage(`{"CPUs":1,"MemoryMiB":384,"Share":4}`),
		File: protocol.BootFile{Node: "node-1", Name: "n1", Boot: 1, Token: "guest's secret", Authority: f.authority,
			Endpoints: []string{"https://10.77.0.1:7421"}},
	}
	want := func(h protocol.Hosting) {
		f.mu.Lock()
		f.wanted["m1"] = h
		f.mu.Unlock()
		f.bell()
	}
	want(protocol.Hosting{Revision: 1, Guests: []protocol.HostedGuest{guest},
		Networks: []protocol.HostedNetwork{{Cluster: "c1", Segment: 7}}, Images: []protocol.HostedImage{of}})
	f.until(t, "its guest runs", func() bool {
		r := f.hosted["m1"]
		if len(r.Guests) == 1 && r.Guests[0].Try == 1 && !r.Guests[0].Running {
			t.Errorf("%+v", r.Guests[0])
			return true
		}
		return len(r.Guests) == 1 && r.Guests[0].Running
	})
	want(protocol.Hosting{Revision: 2})
	f.until(t, "its guest is gone", func() bool {
		r := f.hosted["m1"]
		return r.Revision == 2 && len(r.Guests) == 0 && len(r.Networks) == 0
	})
	f.mu.Lock()
	f.stale["m1"] = true
	f.mu.Unlock()
	f.bell()
	select {
	case <-ended:
	case <-time.After(3 * time.Minute):
		t.Error("a machine that is not wanted any more goes on")
	}
}
