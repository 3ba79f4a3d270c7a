package rackd

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTrimGivesBackZeroesAndKeepsData(t *testing.T) {
	const mebibyte = 1 << 20
	path := t.TempDir() + "/disk"
	if err := sparse(path, 16); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_ZERO_RANGE, 0, 16*mebibyte); err != nil {
		t.Skipf("this file system cannot set zeroes aside: %v", err)
	}
	data := bytes.Repeat([]byte("muster"), 1000)
	if _, err := file.WriteAt(data, 5*mebibyte); err != nil {
		t.Fatal(err)
	}
	if err := trim(path); err != nil {
		t.Fatal(err)
	}
	var got unix.Stat_t
	if err := unix.Stat(path, &got); err != nil {
		t.Fatal(err)
	}
	if room := got.Blocks * 512; room > mebibyte || got.Size != 16*mebibyte {
		t.Errorf("it takes %d bytes of %d", room, got.Size)
	}
	read := make([]byte, len(data))
	if _, err := file.ReadAt(read, 5*mebibyte); err != nil || !bytes.Equal(read, data) {
		t.Errorf("its data is lost: %v", err)
	}
}
