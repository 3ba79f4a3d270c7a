package initramfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"
)

// newc is one record: number, mode, links, device, name, content. Owner and time are zero.
func newc(number, mode, links, size, major, minor, nameSize, name, content string) string {
	zero := "00000000"
	return "070701" + number + mode + zero + zero + links + zero + size + zero + zero + major + minor + nameSize + zero + name +
		content
}

func TestAnArchiveIsWhatTheKernelReads(t *testing.T) {
	files := []File{
		{Name: "lib/b", Mode: 0o644, Content: []byte("bbbbb")},
		{Name: "dev/null", Mode: fs.ModeCharDevice | 0o666, Major: 1, Minor: 3},
		{Name: "init", Mode: 0o755, Content: []byte("a")},
	}
	z, one := "00000000", "00000001"
	want := newc("00000001", "000041ED", one, z, z, z, "00000004", "dev\x00\x00\x00", "") +
		newc("00000002", "000021B6", one, z, one, "00000003", "00000009", "dev/null\x00\x00", "") +
		newc("00000003", "000081ED", one, one, z, z, "00000005", "init\x00\x00", "a\x00\x00\x00") +
		newc("00000004", "000041ED", one, z, z, z, "00000004", "lib\x00\x00\x00", "") +
		newc("00000005", "000081A4", one, "00000005", z, z, "00000006", "lib/b\x00", "bbbbb\x00\x00\x00") +
		newc(z, z, z, z, z, z, "0000000B", "TRAILER!!!\x00\x00\x00\x00", "")
	for range 2 {
		var got bytes.Buffer
		if err := Write(&got, files); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("got\n%q, want\n%q", got.String(), want)
		}
		slices.Reverse(files)
	}
}

func TestNamesThatAreNoPathsAreRefused(t *testing.T) {
	for _, files := range [][]File{{{Name: "/init"}}, {{Name: "../init"}}, {{Name: ""}}, {{Name: "a"}, {Name: "a"}}} {
		if err := Write(io.Discard, files); err == nil {
			t.Errorf("%q was written", files[0].Name)
		}
	}
}

func TestAPackedProgramIsTheFirstProcess(t *testing.T) {
	program := []byte(strings.Repeat("program", 1000))
	one, err := Pack(program)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Pack(program)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("packed twice it is not the same (%v)", err)
	}
	if len(one)%4 != 0 {
		t.Errorf("%d bytes: the next archive would not be found", len(one))
	}
	unpacker, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unpacker.Close()
	archive, err := unpacker.DecodeAll(bytes.TrimRight(one, "\x00"), nil)
	if err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
	}
	if want := []string{"dev", "dev/console", "dev/null", "init"}; !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
}

func TestAProgramWithoutItsFirstStageSaysHowToBuildIt(t *testing.T) {
	archive, err := Archive()
	_, missing := fs.Stat(built, "built/muster-init")
	switch {
	case missing != nil && (!errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "make build")):
		t.Errorf("got %v", err)
	case missing == nil && (err != nil || len(archive) < 1<<20):
		t.Errorf("%d bytes, %v", len(archive), err)
	}
}
