package ibsim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
)

func TestASimulatedFabricObeysItsManagerAndItsHosts(t *testing.T) {
	folder := t.TempDir()
	s, err := Start(folder, []byte(fabrictest.FatTree(4, 2, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	file := filepath.Join(folder, "partitions.conf")
	text := fmt.Sprintf("Default=0x7fff : ALL=limited ;\nDefault=0x7fff : %s=full ;\np0001=0x0001 : %s=full ;\n",
		fabrictest.HostPort(0), fabrictest.HostPort(1))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node := fmt.Sprintf("H-%016x", uint64(fabrictest.HostNode(0)))
	if _, err := s.Run(t.Context(), node, "opensm", "-o", "-f", filepath.Join(folder, "log"), "-P", file); err != nil {
		t.Fatal(err)
	}
	c, err := s.Connect(node)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen, lids := fabric.Tables{}, map[fabric.GUID]uint16{}
	for lid := range uint16(8) { // four hosts and three switches
		if guid, port, err := c.Port(lid + 1); err != nil {
			t.Error(err)
		} else {
			seen[guid], lids[guid] = port, lid+1
		}
		if lid == 6 {
			break
		}
	}
	for host, want := range [][]fabric.Entry{{0xffff}, {0x7fff, 0x8001}, {0x7fff}, {0x7fff}} {
		if got := seen[fabrictest.HostPort(host)]; !reflect.DeepEqual(got, fabric.Port{Entries: want, Capacity: TableSize}) {
			t.Errorf("host %d: %v", host, got)
		}
	}
	c.Patience = 50 * time.Millisecond
	_, _, err = c.Port(999)
	c.Patience = time.Minute
	if !errors.Is(err, ErrSilent) {
		t.Errorf("nobody's: %v", err)
	}

	theirs := lids[fabrictest.HostPort(2)]
	if err := c.SetBlock(theirs, 1, []fabric.Entry{0x8001}); err != nil {
		t.Fatal(err)
	}
	if _, p, err := c.Port(theirs); err != nil || !reflect.DeepEqual(p.Entries, []fabric.Entry{0x7fff, 0x8001}) {
		t.Errorf("a host that wrote its own table: %v, %v", p, err)
	}
}

// TestASimulatorEndsWithItsProcess kills a process that has a simulator: this test, run again by itself.
func TestASimulatorEndsWithItsProcess(t *testing.T) {
	const folder = "MUSTER_TEST_SIMULATOR_IN"
	if in := os.Getenv(folder); in != "" {
		s, err := Start(in, []byte(fabrictest.FatTree(4, 2, 1)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("pid", s.process.Process.Pid)
		select {} // until it is killed
	}
	process := exec.Command(os.Args[0], "-test.run", "^TestASimulatorEndsWithItsProcess$")
	process.Env = append(os.Environ(), folder+"="+t.TempDir())
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "pid %d", &pid)
	}
	_ = process.Process.Kill()
	_ = process.Wait()
	if pid == 0 {
		t.Fatal("it said no pid")
	}
	for range 1200 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || !bytes.Contains(text, []byte("(ibsim) ")) || bytes.Contains(text, []byte(") Z ")) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("ibsim, pid %d, has outlived its process", pid)
}
