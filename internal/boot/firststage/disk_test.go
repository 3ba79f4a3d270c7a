package firststage

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func sysfs(t *testing.T, files map[string]string) *hardware {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &hardware{sys: dir, console: console{io.Discard}}
}

func TestFixedDisksAreListedNVMeFirstThenByNumber(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"sdb", "sda", "sdaa", "nvme1n1", "nvme0n1", "nvme0c0n1", "vda", "loop0", "sr0", "dm-0", "md0",
		"zram0"} {
		files["block/"+name+"/size"] = "4194304"
		files["block/"+name+"/removable"] = "0"
		files["block/"+name+"/ro"] = "0"
		files["block/"+name+"/queue/logical_block_size"] = "512"
	}
	files["block/sda/removable"] = "1" // a USB stick
	files["block/nvme0n1/ro"] = "1"
	var names []string
	for _, d := range sysfs(t, files).disks() {
		names = append(names, d.name)
		if d.bytes != 2<<30 || d.sector != 512 {
			t.Errorf("%+v", d)
		}
	}
	if want := []string{"nvme1n1", "sdb", "vda", "sdaa"}; !slices.Equal(names, want) {
		t.Errorf("disks %q, want %q", names, want)
	}
	if got := (disk{name: "nvme0n1"}).partition(2) + (disk{name: "sda"}).partition(2); got != "/dev/nvme0n1p2/dev/sda2" {
		t.Errorf("partitions %s", got)
	}
}

func TestTheNICIsFoundByItsMAC(t *testing.T) {
	h := sysfs(t, map[string]string{"class/net/lo/address": "00:00:00:00:00:00", "class/net/eth0/address": "52:54:00:00:00:02",
		"class/net/eth1/address": "52:54:00:00:00:01"})
	if name, _ := h.findNIC([]byte{0x52, 0x54, 0, 0, 0, 1}); name != "eth1" {
		t.Errorf("found %q", name)
	}
	if name, others := h.findNIC([]byte{1, 2, 3, 4, 5, 6}); name != "" ||
		strings.Join(others, ", ") != "eth0 52:54:00:00:00:02, eth1 52:54:00:00:00:01" {
		t.Errorf("found %q; there are %q", name, others)
	}
}

func testLabel() label {
	_, blob := content(1)
	return label{Keep: "n1", Digest: blob.Digest, Size: 5<<20 + 1}
}

func TestALabelIsReadAsItWasWritten(t *testing.T) {
	block, err := testLabel().encode()
	if err != nil || len(block) != labelBlock {
		t.Fatal(len(block), err)
	}
	if got, err := decodeLabel(block); err != nil || got != testLabel() {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range bytes.TrimRight(block, "\x00") {
		bad := bytes.Clone(block)
		bad[i] ^= 4
		if l, err := decodeLabel(bad); err == nil {
			t.Fatalf("with byte %d changed it is %+v", i, l)
		}
	}
}

func FuzzLabel(f *testing.F) {
	block, _ := testLabel().encode()
	f.Add(block)
	f.Add([]byte(labelMagic))
	f.Add(make([]byte, labelBlock))
	f.Fuzz(func(t *testing.T, block []byte) {
		if l, err := decodeLabel(block); err == nil && (l.Size <= 0 || l.room() <= l.Size) {
			t.Errorf("%+v", l)
		}
	})
}

func TestThePartitionTableIsWhatTheSpecificationAsksFor(t *testing.T) {
	for _, sector := range []int64{512, 4096} {
		d, l := disk{name: "sda", bytes: 2<<30 + 40960, sector: sector}, testLabel()
		last := d.bytes/sector - 1
		image := map[int64][]byte{}
		for _, p := range table(d, l) {
			for at := int64(0); at < int64(len(p.bytes)); at += sector {
				image[p.at/sector+at/sector] = p.bytes[at : at+sector]
			}
		}
		if s := image[0]; s[510] != 0x55 || s[511] != 0xaa || s[450] != 0xee {
			t.Errorf("sector %d: no protective MBR", sector)
		}
		for here, other := range map[int64]int64{1: last, last: 1} {
			h := bytes.Clone(image[here])
			u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
			u64 := func(b []byte, at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }
			sum := u32(16)
			clear(h[16:20])
			if string(h[:8]) != "EFI PART" || crc32.ChecksumIEEE(h[:92]) != sum || u64(h, 24) != here || u64(h, 32) != other {
				t.Errorf("sector %d: the header at %d is wrong", sector, here)
			}
			var array []byte
			for at := u64(h, 72); len(array) < 128*128; at++ {
				array = append(array, image[at]...)
			}
			if crc32.ChecksumIEEE(array[:128*128]) != u32(88) {
				t.Errorf("sector %d: the array of the header at %d is wrong", sector, here)
			}
			first, end := u64(h, 40), u64(h, 48)
			for n, want := range [][2]int64{{2 << 20, 8<<20 - 1}, {8 << 20, 2<<30 - 1}, {1 << 20, 2<<20 - 1}} {
				from, to := u64(array[n*128:], 32), u64(array[n*128:], 40)
				if from < first || to > end || from*sector != want[0] || (to+1)*sector-1 != want[1] {
					t.Errorf("sector %d: partition %d is of %d to %d, want bytes %v", sector, n+1, from, to, want)
				}
			}
		}
	}
}
