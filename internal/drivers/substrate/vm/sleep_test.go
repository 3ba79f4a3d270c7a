package vm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/inventory"
	"muster/internal/kit/testall"
	"muster/internal/place"
)

func TestAGuestSleepsAndCountsOn(t *testing.T) {
	testall.Only(t)
	needs(t)
	i, counter := counts(t)
	w := open(t, i, counter, counter)
	w.sharedOf(t, "c1")
	n := node("c1", 1, 1)
	on := func(core int) *place.Allocation {
		return &place.Allocation{Guest: "g", Share: 16, Cells: []place.Cell{{Cores: []int{core}, MemoryMiB: 96}}}
	}
	n.Allocation = on(cores()[0])
	if err := w.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.countsOn(t, n.Ref, 5)
	size, err := w.Sleep(t.Context(), n.Ref)
	if err != nil {
		t.Fatal(err)
	}
	number, last := w.counted(t, n.Ref)
	t.Logf("%d bytes on disk; it had counted to %d", size, last)
	b := w.bootOf(t, n.Ref)
	info, err := os.Stat(b.memoryPath(memoryFile))
	check(t, err)
	if info.Mode().Perm() != 0o600 || info.Size() != size || size < 1<<20 {
		t.Errorf("its memory is a file of %d bytes with mode %v", info.Size(), info.Mode())
	}
	seen, err := w.Observe(t.Context(), n.Ref)
	check(t, err)
	held, err := w.parts()
	check(t, err)
	if !seen.Present || seen.Running || !strings.HasPrefix(seen.Detail, "it is suspended") || len(held) > 0 ||
		w.emulated(t, n.Ref) > 0 {
		t.Errorf("asleep it is %+v, and holds %+v", seen, held)
	}
	if again, err := w.Sleep(t.Context(), n.Ref); err != nil || again != size {
		t.Errorf("once more: %d, %v", again, err)
	}

	other := n
	other.Allocation = &place.Allocation{Guest: "g", Share: 16, Cells: []place.Cell{{Cores: []int{cores()[1]}, MemoryMiB: 128}}}
	if err := w.Wake(t.Context(), other); !errors.Is(err, substrate.ErrRefused) {
		t.Errorf("it woke in another machine: %v", err)
	}
	n.Allocation = on(cores()[1])
	check(t, w.Wake(t.Context(), n))
	if same, count := w.countsOn(t, n.Ref, last); same != number || count > last+1000 {
		t.Errorf("another guest counts: %s from %d, not %s from %d", same, count, number, last)
	}
	if _, err := os.Stat(b.memoryPath(usedFile)); !os.IsNotExist(err) {
		t.Errorf("its memory is on disk still: %v", err)
	}
	check(t, w.Wake(t.Context(), n)) // again, when it runs

	if _, err := w.Sleep(t.Context(), n.Ref); err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(b.memoryPath(memoryFile))
	check(t, err)
	defer memory.Close()
	check(t, w.Remove(t.Context(), allOf(n.Ref)))
	left, err := io.ReadAll(memory)
	check(t, err)
	if len(left) == 0 || len(bytes.Trim(left, "\x00")) > 0 {
		t.Errorf("of the memory of a guest that was removed %d bytes are on disk", len(bytes.Trim(left, "\x00")))
	}
}

// A call about a guest that is not here starts nothing that would not be ended.
func TestAGuestThatIsNotHereStartsNoLibvirt(t *testing.T) {
	needs(t)
	w := idling(t).open(t)
	n := withCore(node("c1", 1, 1))
	if err := w.Wake(t.Context(), n); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
	if _, err := w.Sleep(t.Context(), n.Ref); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
	if _, runs := w.libvirt(); runs {
		t.Error("libvirt runs, and there is no guest")
	}
}

func TestMemoryHasToFitOnTheDisk(t *testing.T) {
	p := on(0, 2048, 0, 1)
	const need, reserve = (2048 + spareMiB) << 20, 512 << 20
	if err := roomFor(p, need+reserve, reserve); err != nil {
		t.Error(err)
	}
	for free, left := range map[int64]string{need + reserve - 1: "3071", need: "2560", 0: "0"} {
		if err := roomFor(p, free, reserve); !errors.Is(err, substrate.ErrNoRoom) ||
			!strings.Contains(err.Error(), "3072 MiB are needed and "+left+" MiB may be taken") {
			t.Error(err)
		}
	}
}

func TestAQEMUThatWritesMoreThanItsGuestsMemoryIsEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory")
	writer := exec.Command("sh", "-c", `while :; do echo more >>"$0"; sleep 0.01; done`, file)
	check(t, writer.Start())
	dead := make(chan error, 1)
	go func() { dead <- writer.Wait() }()
	t.Cleanup(func() { _ = writer.Process.Kill() })
	qemu, found := onhost.Find(writer.Process.Pid)
	if !found {
		t.Fatal("it does not run")
	}
	ended := make(chan struct{})
	close(ended)
	endOverMost(ended, file, 1<<20, qemu) // it has written little
	if !qemu.Runs() {
		t.Fatal("one that writes what it may is ended")
	}
	endOverMost(make(chan struct{}), file, 50, qemu)
	<-dead
}

func TestAQEMUThatKeepsItsGuestsMemoryOpenIsEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory")
	check(t, os.WriteFile(file, nil, 0o600))
	for _, holds := range []bool{false, true} {
		from := "/dev/null"
		if holds {
			from = file
		}
		reader := exec.Command("sleep", "600")
		in, err := os.Open(from)
		check(t, err)
		reader.Stdin = in
		check(t, reader.Start())
		check(t, in.Close())
		qemu, _ := onhost.Find(reader.Process.Pid)
		check(t, letGoOf(file, qemu))
		if qemu.Runs() == holds {
			t.Errorf("holds it: %t; runs on: %t", holds, qemu.Runs())
		}
		_ = reader.Process.Kill()
		_ = reader.Wait()
	}
	check(t, letGoOf(file+"s", onhost.Process{PID: os.Getpid()}))
}

// On a host that is emulated itself, guests with KVM are as slow as others without it.
func TestGuestsOfAnEmulatedHostHaveTheTimeOfEmulatedOnes(t *testing.T) {
	for model, emulated := range map[string]bool{"QEMU TCG CPU version 2.5+": true, "QEMU Virtual CPU version 2.5+": true,
		"AMD EPYC 7763 64-Core Processor": false, "": false} {
		d := &Driver{config: Config{Facts: func(context.Context) (inventory.Facts, error) {
			return inventory.Facts{CPUModel: model}, nil
		}}}
		if d.looksEmulated() != emulated {
			t.Errorf("%q", model)
		}
	}
}
