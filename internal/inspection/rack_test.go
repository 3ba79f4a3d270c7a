package inspection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// insideMark tells the test program that it is the first process of a QEMU machine.
const insideMark = "MUSTER_INSIDE_QEMU"

func TestMain(m *testing.M) {
	if os.Getenv(insideMark) != "" {
		inside()
	}
	os.Exit(m.Run())
}

// printing is a controller that asks to erase, and writes what it hears to the console.
type printing struct{}

func (printing) Inspection(context.Context) (protocol.Inspection, error) {
	return protocol.Inspection{Erase: true, Within: 4 * time.Second}, nil
}

func (printing) Findings(_ context.Context, f protocol.Findings) error {
	text, err := json.Marshal(f)
	fmt.Printf("FINDINGS %s\n", text)
	return err
}

// inside runs the inspection as the product would, and switches the machine off.
func inside() {
	err := Run(context.Background(), printing{}, os.Stdout, Options{Tools: programs{}})
	fmt.Printf("RUN %v\n", err)
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// programs are those of this machine.
type programs struct{}

func (programs) Run(ctx context.Context, argv ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", argv[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// TestAQEMUMachineIsErasedAndTested boots a real kernel on a machine with disks of three kinds, which hold a tenant's
// data, and one that can't be read at 20 MiB, and looks at their files afterwards.
func TestAQEMUMachineIsErasedAndTested(t *testing.T) {
	testall.Only(t)
	dir, kernel := t.TempDir(), os.Getenv("MUSTER_TEST_KERNEL")
	if _, err := os.Stat(kernel); err != nil {
		t.Skip("no machine is booted: MUSTER_TEST_KERNEL names no unpacked kernel package; `make test-all` fetches one")
	}
	initramfs := initramfs(t, dir, kernel)
	secret := bytes.Repeat([]byte("tenant's secret "), 1<<16/16)
	disk := func(name string, mib int64) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		must(t, err)
		defer f.Close()
		must(t, f.Truncate(mib<<20))
		for offset := int64(0); offset < mib<<20; offset += 1 << 20 {
			_, err := f.WriteAt(secret, offset)
			must(t, err)
		}
		return "if=none,format=raw,file=" + path + ",discard=unmap,id=" + name
	}
	vmlinuz, err := filepath.Glob(filepath.Join(kernel, "boot/vmlinuz-*"))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	began := time.Now()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "q35,sata=off", "-accel", "tcg", "-cpu", "qemu64", "-smp", "2",
		"-m", "768",
		"-nodefaults", "-display", "none", "-vga", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", vmlinuz[0], "-initrd", initramfs, "-append", "console=ttyS0 quiet panic=-1 muster.mac=52:54:00:00:00:01 "+
			insideMark+"=1",
		"-netdev", "user,id=n0,restrict=on", "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01",
		"-drive", disk("virtio", 64), "-device", "virtio-blk-pci,drive=virtio,serial=V1",
		"-drive", disk("plain", 32), "-device", "virtio-blk-pci,drive=plain,serial=V2,discard=off,write-zeroes=off",
		"-drive", disk("large", 1100), "-device", "nvme,drive=large,serial=N1",
		"-device", "nvme,id=two,serial=N2", "-drive", disk("first", 64), "-device", "nvme-ns,bus=two,drive=first,nsid=1",
		"-drive", disk("second", 64), "-device", "nvme-ns,bus=two,drive=second,nsid=2",
		"-drive", badSector(disk("bad", 32)), "-device", "virtio-blk-pci,drive=bad,serial=V3",
		"-device", "virtio-scsi-pci", "-drive", disk("scsi", 64), "-device", "scsi-hd,drive=scsi,serial=S1")
	out, err := qemu.CombinedOutput()
	t.Logf("%.1f s\n%s", time.Since(began).Seconds(), out)
	must(t, err)

	lines := regexp.MustCompile(`(?m)^FINDINGS (.*"done":true.*?)\r?$`).FindSubmatch(out)
	if lines == nil {
		t.Fatal("the machine delivered no findings")
	}
	var findings protocol.Findings
	must(t, json.Unmarshal(lines[1], &findings))
	methods := map[string]string{}
	for _, e := range findings.Erased {
		methods[e.Disk] = e.Method
		if !e.OK && strings.Contains(e.Error, "read at 20 MiB: input/output error") {
			methods[e.Disk] = "can't be read"
		}
	}
	want := map[string]string{
		"vda": "discard and zero", "vdb": "zero", "sda": "discard and zero",
		"vdc":     "can't be read",
		"nvme0n1": "nvme format: user data", "nvme1n1": "nvme format: user data", "nvme1n2": "nvme format: user data",
	}
	if d := cmp.Diff(want, methods); d != "" {
		t.Errorf("erased otherwise than thought:\n%s", d)
	}
	for _, name := range []string{"virtio", "plain", "large", "first", "second", "scsi"} {
		f, err := os.Open(filepath.Join(dir, name))
		must(t, err)
		defer f.Close()
		content := make([]byte, len(secret))
		for offset := int64(0); ; offset += 1 << 20 {
			if _, err := f.ReadAt(content, offset); err != nil {
				break
			}
			if bytes.Contains(content, []byte("tenant")) {
				t.Errorf("%s holds a tenant's data at %d", name, offset)
			}
		}
	}
	for _, c := range findings.Checks {
		if c.OK != (c.Name != "disks") {
			t.Errorf("check %s: %v %s", c.Name, c.OK, c.Text)
		}
	}
	var facts inventory.Facts
	must(t, json.Unmarshal(findings.Facts, &facts))
	if facts.CPUs != 2 || len(facts.Disks) != 7 || len(facts.DIMMs) != 1 || len(facts.NICs) != 1 ||
		facts.System.Vendor != "QEMU" {
		t.Errorf("facts: %+v", facts)
	}
}

// badSector makes a disk fail to read one sector.
func badSector(drive string) string {
	path := regexp.MustCompile(`file=([^,]*)`).FindStringSubmatch(drive)[1]
	return "if=none,id=bad,driver=blkdebug,image.driver=raw,image.file.driver=file,image.file.filename=" + path +
		",inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector=40960"
}

// initramfs has this test as its first process, the tools that it calls with their libraries, and the modules that the
// machine's devices need.
func initramfs(t *testing.T, dir, kernel string) string {
	t.Helper()
	root := filepath.Join(dir, "root")
	script := `set -e
root=$0 kernel=$1 here=$2
mkdir -p "$root"/bin "$root"/proc "$root"/sys "$root"/dev "$root"/tmp "$root"/usr/share/misc
(cd "$here" && CGO_ENABLED=0 go test -c -o "$root/inspection" .)
cp /bin/busybox "$root/bin/"
for p in sh mount modprobe; do ln -s busybox "$root/bin/$p"; done
for p in nvme smartctl hdparm sg_sanitize sg_requests lspci ethtool; do
  f=$(PATH=$PATH:/sbin:/usr/sbin command -v $p)
  cp "$f" "$root/bin/"
  ldd "$f" | grep -o '/[^ ]*' | while read l; do mkdir -p "$root$(dirname $l)"; cp -L "$l" "$root$l"; done
done
cp /usr/share/misc/pci.ids "$root/usr/share/misc/"
version=$(ls "$kernel/lib/modules")
mkdir -p "$root/lib/modules/$version"
cd "$kernel/lib/modules/$version"
cp -r --parents kernel/drivers/virtio kernel/drivers/block kernel/drivers/scsi kernel/drivers/net/virtio_net.ko kernel/drivers/net/net_failover.ko kernel/net/core kernel/lib kernel/crypto kernel/arch "$root/lib/modules/$version/"
cp modules.order modules.builtin* "$root/lib/modules/$version/"
depmod -b "$root" "$version"
cat >"$root/init" <<'EOF'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec /inspection
EOF
chmod +x "$root/init"
cd "$root"
find . | cpio --quiet -o -H newc >"$root.cpio"`
	here, err := os.Getwd()
	must(t, err)
	out, err := exec.Command("bash", "-c", script, root, kernel, here).CombinedOutput()
	if err != nil {
		t.Fatalf("make an initramfs: %v: %s", err, out)
	}
	return root + ".cpio"
}
