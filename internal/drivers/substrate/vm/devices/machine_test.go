package devices_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// insideMark tells the test program that it is the first process of a QEMU machine; see inside_test.go.
const insideMark = "MUSTER_INSIDE_HYPERVISOR"

func TestMain(m *testing.M) {
	if what := os.Getenv(insideMark); what != "" {
		inside(what)
	}
	os.Exit(m.Run())
}

// secret is what stands on the machine's disks before they are given and taken back.
const secret = "a tenant's secret "

// TestAQEMUHypervisorDividesGivesAndTakesBack boots a machine with an IOMMU and an NVMe controller with SR-IOV, and moves
// its functions by the driver that the product has, on a real kernel.
func TestAQEMUHypervisorDividesGivesAndTakesBack(t *testing.T) {
	testall.Only(t)
	m := newMachine(t)
	for _, name := range []string{"one", "two", "whole"} {
		m.disk(name)
	}
	out := m.boot("disks",
		"-device", "pcie-root-port,id=rp0,chassis=1,slot=1", "-device", "nvme-subsys,id=ss0",
		"-device", "nvme,id=nv0,serial=S1,bus=rp0,subsys=ss0,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=18,msix_qsize=20",
		"-device", "nvme-ns,drive=one,nsid=1,shared=on,detached=on", "-device", "nvme-ns,drive=two,nsid=2,shared=on,detached=on",
		"-device", "pcie-root-port,id=rp1,chassis=2,slot=2", "-device", "nvme,id=nv1,serial=W1,bus=rp1,drive=whole")
	for _, want := range []string{
		`inventory: nvme 0000:01:00.0 of "" in group `, `inventory: nvme 0000:01:00.2 of "0000:01:00.0" in group `,
		`4 virtual functions, driver "nvme"`,
		"kept: 0 takes all virtual functions away", "given: VFIO reads class 0108 of 0000:01:00.1",
		"taken back: 0000:01:00.1", "taken back: 0000:02:00.0",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the machine's console lacks %q", want)
		}
	}
	if !regexp.MustCompile(`(?m)^RESULT ok\r?$`).MatchString(out) {
		t.Fatal("it did not go well inside")
	}
	for name, erased := range map[string]bool{"one": true, "two": false, "whole": true} {
		content, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(secret)) == erased {
			t.Errorf("disk %s: erased %v, want %v", name, !erased, erased)
		}
	}
}

// TestAQEMUNICsFunctionsGetTheirAddresses does the same with an Ethernet adapter with SR-IOV, which QEMU has since 8.0.
func TestAQEMUNICsFunctionsGetTheirAddresses(t *testing.T) {
	folder := os.Getenv("MUSTER_TEST_QEMU")
	if folder == "" {
		t.Skip("no machine with an igb is booted: set MUSTER_TEST_QEMU to a folder with Debian's packages qemu-system-x86, " +
			"-common and -data unpacked, version 8 or newer")
	}
	m := newMachine(t)
	m.qemu = filepath.Join(folder, "usr/bin/qemu-system-x86_64")
	t.Setenv("QEMU_MODULE_DIR", filepath.Join(folder, "usr/lib/x86_64-linux-gnu/qemu"))
	out := m.boot("nic", "-L", filepath.Join(folder, "usr/share/qemu"), "-L", "/usr/share/seabios",
		"-device", "pcie-root-port,id=rp0,chassis=1,slot=1", "-netdev", "user,id=n0,restrict=on", "-device",
		"igb,bus=rp0,netdev=n0,mac=52:54:00:00:00:01,romfile=")
	for _, want := range []string{
		"kept: 0 takes all virtual functions away",
		"prepared: mac 02:00:00:00:00:07, vlan 12, spoofchk on, trust off", "given: VFIO reads class 0200 of 0000:01:10.0",
		"taken back: mac 00:00:00:00:00:00, vlan 0, spoofchk on, trust off",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the machine's console lacks %q", want)
		}
	}
	if !regexp.MustCompile(`(?m)^RESULT ok\r?$`).MatchString(out) {
		t.Fatal("it did not go well inside")
	}
}

// TestAGuestInsideAQEMUHypervisorUsesItsDisk starts a QEMU inside the QEMU machine, with a virtual function as its disk.
func TestAGuestInsideAQEMUHypervisorUsesItsDisk(t *testing.T) {
	if os.Getenv("MUSTER_NESTED_TEST") != "1" {
		t.Skip("emulates a machine that emulates a machine, which takes minutes: set MUSTER_NESTED_TEST=1")
	}
	m := newMachine(t)
	m.memory = "2048"
	m.nest()
	m.disk("one")
	out := m.boot("nested", "-device", "pcie-root-port,id=rp0,chassis=1,slot=1", "-device", "nvme-subsys,id=ss0",
		"-device", "nvme,id=nv0,serial=S1,bus=rp0,subsys=ss0,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=18,msix_qsize=20",
		"-device", "nvme-ns,drive=one,nsid=1,shared=on,detached=on")
	for _, want := range []string{"GUEST read " + strings.TrimSpace(secret), "GUEST wrote", "the driver says: given",
		"taken back: 0000:01:00.1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the machine's console lacks %q", want)
		}
	}
	if !regexp.MustCompile(`(?m)^RESULT ok\r?$`).MatchString(out) {
		t.Fatal("it did not go well inside")
	}
	content, err := os.ReadFile(filepath.Join(m.dir, "one"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte(secret)) || bytes.Contains(content, []byte("guest was here")) {
		t.Error("the disk was not erased after the guest")
	}
}

// machine is a QEMU machine with an IOMMU whose first process is this test.
type machine struct {
	testing.TB
	qemu, memory           string
	dir, kernel, initramfs string
	drives                 []string
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	store := os.Getenv("MUSTER_TEST_IMAGES")
	if store == "" {
		store = "../../../../../build/images"
	}
	image, err := filepath.Abs(filepath.Join(store, "debian13-hpc", "latest"))
	if err == nil {
		_, err = os.Stat(filepath.Join(image, "vmlinuz"))
	}
	if err != nil {
		t.Skip("no machine is booted: image debian13-hpc is not there with a kernel; `make image` builds it")
	}
	for _, program := range []string{"qemu-system-x86_64", "unsquashfs", "depmod", "cpio", "busybox", "nvme"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no machine is booted: %s is missing; scripts/setup.sh test installs it", program)
		}
	}
	m := &machine{TB: t, qemu: "qemu-system-x86_64", memory: "768", dir: t.TempDir(), kernel: filepath.Join(image, "vmlinuz")}
	m.initramfs = m.pack(filepath.Join(image, "root.squashfs"))
	return m
}

// pack makes an initramfs of this test, the programs that the driver calls, and the modules of the devices.
func (m *machine) pack(rootfs string) string {
	m.Helper()
	const script = `set -e
root=$0 rootfs=$1
k='usr/lib/modules/*/kernel'
unsquashfs -quiet -no-progress -dest "$root" "$rootfs" 'usr/lib/modules/*/modules.*' "$k/drivers/vfio" "$k/virt" "$k/drivers/nvme" \
  "$k/drivers/net/ethernet/intel/igb" "$k/drivers/net/ethernet/intel/igbvf" "$k/drivers/ptp" "$k/drivers/pps" "$k/drivers/dca" \
  "$k/drivers/i2c/algos" "$k/drivers/iommu" "$k/lib" "$k/crypto" "$k/arch/x86/crypto" "$k/block" >/dev/null
mkdir -p "$root"/bin "$root"/proc "$root"/sys "$root"/dev "$root"/tmp "$root"/run
ln -s usr/lib "$root/lib"
CGO_ENABLED=0 go test -c -ldflags "-s -w" -o "$root/inside" .
cp "$(command -v busybox)" "$root/bin/busybox"
for p in sh mount modprobe; do ln -s busybox "$root/bin/$p"; done
cp "$(PATH=$PATH:/sbin:/usr/sbin command -v nvme)" "$root/bin/"
ldd "$root/bin/nvme" | grep -o '/[^ ]*' | while read -r l; do mkdir -p "$root$(dirname "$l")"; cp -L "$l" "$root$l"; done
version=$(ls "$root/usr/lib/modules")
PATH=$PATH:/sbin:/usr/sbin depmod -b "$root" "$version"
cat >"$root/init" <<'EOF2'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec /inside
EOF2
chmod +x "$root/init"
cd "$root"
find . | cpio --quiet -o -H newc >"$root.cpio"`
	root := filepath.Join(m.dir, "root")
	if out, err := exec.Command("bash", "-c", script, root, rootfs).CombinedOutput(); err != nil {
		m.Fatalf("make an initramfs: %v: %s", err, out)
	}
	return root + ".cpio"
}

// nest adds to the initramfs a QEMU, and a guest that reads its disk and writes to it.
func (m *machine) nest() {
	m.Helper()
	const script = `set -e
root=$0 kernel=$1
mkdir -p "$root/nested" "$root/guest/bin" "$root/guest/proc" "$root/guest/sys" "$root/guest/dev" "$root/guest/usr" "$root/usr/share/qemu" "$root/usr/share/seabios"
cp "$kernel" "$root/nested/vmlinuz"
cp -r "$root/usr/lib" "$root/guest/usr/"
ln -s usr/lib "$root/guest/lib"
cp -a "$root"/bin/busybox "$root"/bin/sh "$root"/bin/mount "$root"/bin/modprobe "$root/guest/bin/"
rm -rf "$root/guest/usr/lib/modules/"*/kernel/drivers/vfio "$root/guest/usr/lib/modules/"*/kernel/drivers/net "$root"/guest/usr/lib/x86_64-linux-gnu
cat >"$root/guest/init" <<'EOF2'
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe nvme
until [ -e /dev/nvme0n1 ]; do busybox sleep 0.2; done
echo "GUEST read $(busybox dd if=/dev/nvme0n1 bs=17 count=1 2>/dev/null)"
echo "guest was here" | busybox dd of=/dev/nvme0n1 bs=4096 seek=100 conv=sync,fsync 2>/dev/null && echo "GUEST wrote"
busybox poweroff -f
EOF2
chmod +x "$root/guest/init"
(cd "$root/guest" && find . | cpio --quiet -o -H newc >"$root/nested/initrd")
rm -rf "$root/guest"
for f in "$(command -v qemu-system-x86_64)" /usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so; do
  mkdir -p "$root$(dirname "$f")"; cp -L "$f" "$root$f"
  ldd "$f" | grep -o '/[^ ]*' | while read -r l; do mkdir -p "$root$(dirname "$l")"; cp -L "$l" "$root$l"; done
done
cp -L /usr/share/seabios/bios-256k.bin /usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin "$root/usr/share/qemu/"
cd "$root"
find . | cpio --quiet -o -H newc >"$root.cpio"`
	if out, err := exec.Command("bash", "-c", script, filepath.Join(m.dir, "root"), m.kernel).CombinedOutput(); err != nil {
		m.Fatalf("put a QEMU into the initramfs: %v: %s", err, out)
	}
}

// disk makes a disk of 16 MiB that is full of a tenant's secrets.
func (m *machine) disk(name string) {
	m.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, bytes.Repeat([]byte(secret), 16<<20/len(secret)+1)[:16<<20], 0o600); err != nil {
		m.Fatal(err)
	}
	m.drives = append(m.drives, "-drive", "if=none,format=raw,id="+name+",file="+path)
}

// boot runs the machine until it has said its result, and returns its console. What it does inside goes by a name.
func (m *machine) boot(what string, more ...string) string {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 15*time.Minute)
	defer cancel()
	arguments := append([]string{
		"-M", "q35,kernel-irqchip=split", "-accel", "tcg", "-cpu", "qemu64", "-smp", "1", "-m", m.memory, "-nodefaults",
		"-display", "none", "-vga", "none",
		"-serial", "stdio", "-no-reboot", "-kernel", m.kernel, "-initrd", m.initramfs,
		"-append", "console=ttyS0 quiet panic=-1 no_timer_check intel_iommu=on iommu=nopt " + insideMark + "=" + what,
		"-device", "intel-iommu,intremap=on,caching-mode=on",
	}, append(m.drives, more...)...)
	began := time.Now()
	said := new(console)
	said.over = func() { time.AfterFunc(20*time.Second, cancel) } // an emulated controller may hang while its machine powers off
	qemu := exec.CommandContext(ctx, m.qemu, arguments...)
	qemu.Stdout, qemu.Stderr = said, said
	err := qemu.Run()
	m.Logf("%.1f s\n%s", time.Since(began).Seconds(), said)
	if err != nil && said.over != nil {
		m.Fatalf("qemu: %v", err)
	}
	return said.String()
}

// console keeps what a machine says. The first line of a result calls over, once.
type console struct {
	bytes.Buffer
	over func()
}

var result = regexp.MustCompile(`(?m)^RESULT .*\n`)

func (c *console) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if c.over != nil && result.Match(c.Bytes()) {
		c.over()
		c.over = nil
	}
	return n, err
}
