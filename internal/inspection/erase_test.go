package inspection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

const mib = 1 << 20

// eraser is a method that does something to a disk in memory.
func eraser(name string, zeroes bool, do func(*memoryDisk)) method {
	return method{name, zeroes, always, func(_ context.Context, e *erasure, _ func(string)) error {
		d, err := e.machine.open(e.disk, true)
		if err != nil {
			return err
		}
		do(d.(*memoryDisk))
		return nil
	}}
}

func run(t *testing.T, d *memoryDisk, methods ...method) protocol.Erased {
	t.Helper()
	e := &erasure{machine: withDisk(d, answers{}), disk: d.disk("sdx", "", "ssd"), progress: newProgress()}
	return e.run(t.Context(), methods)
}

func nothing(*memoryDisk)      {}
func everything(d *memoryDisk) { clear(d.content) }
func ones(d *memoryDisk)       { fillBytes(d.content, 0xff) }
func firstHalf(d *memoryDisk)  { clear(d.content[:len(d.content)/2]) }
func fillBytes(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func TestAMethodCountsOnlyIfTheDiskShowsThatItWorked(t *testing.T) {
	honest := eraser("honest", true, everything)
	for _, c := range []struct {
		name   string
		first  method
		proved bool
		why    string // in Tried, if it is not
	}{
		{"zeroes everything", eraser("first", true, everything), true, ""},
		{"does nothing and says that it is done", eraser("first", true, nothing), false, "64 of 64 markers are still readable"},
		{"does nothing, of the kind that leaves anything", eraser("first", false, nothing), false,
			"64 of 64 markers are still readable"},
		{"does half", eraser("first", true, firstHalf), false, "32 of 64 markers are still readable"},
		{"does half, of the kind that leaves anything", eraser("first", false, firstHalf), false,
			"32 of 64 markers are still readable"},
		{"leaves all ones where zeros were promised", eraser("first", true, ones), false, "64 of 64 markers are still readable"},
		{"leaves all ones where anything may be", eraser("first", false, ones), true, ""},
		{"changes the key", eraser("first", false, (*memoryDisk).scramble), true, ""},
		{"fails", method{"first", true, always, func(context.Context, *erasure, func(string)) error {
			return errDisk
		}}, false, "input/output error"},
		{"overwrites the markers alone", eraser("first", false, func(d *memoryDisk) {
			fresh := newMemoryDisk(d.Size())
			for at := 0; at < len(d.content); at += markerSize {
				if !bytes.Equal(d.content[at:at+markerSize], fresh.content[at:at+markerSize]) {
					clear(d.content[at : at+markerSize])
				}
			}
			// What is left is what was there before, but for 64 blocks.
		}), false, "of 16 samples of 1 MiB are as they were"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newMemoryDisk(16 * mib)
			if strings.HasPrefix(c.name, "overwrites the markers") {
				d = newMemoryDisk(128 * mib) // samples without a marker
				c.why = "samples of 1 MiB are as they were"
			}
			r := run(t, d, c.first, honest)
			want := "honest"
			if c.proved {
				want = "first"
			}
			if !r.OK || r.Method != want || r.Error != "" {
				t.Errorf("receipt %+v, want method %q", r, want)
			}
			if tried := strings.Join(r.Tried, "|"); c.proved != (tried == "") || !strings.Contains(tried, c.why) {
				t.Errorf("tried %q, want %q in it", tried, c.why)
			}
		})
	}
}

func TestTheReceiptSaysWhatWasProvedAndHow(t *testing.T) {
	r := run(t, newMemoryDisk(16*mib), eraser("zero", true, everything))
	r.Took = 0
	want := protocol.Erased{Disk: "sdx", Model: "Model", Serial: "S-sdx", Bytes: 16 * mib, Method: "zero", OK: true,
		Verified: "all of 16 MiB read as zero; none of 64 markers is left"}
	if fmt.Sprint(r) != fmt.Sprint(want) {
		t.Errorf("receipt\n%+v, want\n%+v", r, want)
	}
}

func TestADiskThatCannotBeProvedIsNotErased(t *testing.T) {
	honest := []method{eraser("honest", true, everything)}
	whole := int64(16 * mib)
	for _, c := range []struct {
		name    string
		disk    func(*memoryDisk, *disk)
		methods []method
		why     string
	}{
		{"read-only", func(_ *memoryDisk, d *disk) { d.readOnly = true }, honest, "read-only"},
		{"markers can't be written", func(m *memoryDisk, _ *disk) {
			m.write = func(int64, int) error { return errDisk }
		}, honest, "write a marker: write at"},
		{"writes are forgotten", func(m *memoryDisk, _ *disk) {
			kept := slices.Clone(m.content)
			m.read = func(int64, int) error { copy(m.content, kept); return nil }
		}, honest, "does not keep what it is given"},
		{"reads fail in the middle", func(m *memoryDisk, _ *disk) {
			reads := 0
			m.read = func(offset int64, length int) error {
				if reads++; length > markerSize && offset >= 8*mib {
					return errDisk
				}
				return nil
			}
		}, honest, "read at 8 MiB: input/output error"},
		{"reads come back short", func(m *memoryDisk, _ *disk) { m.short = true }, honest, "unexpected EOF"},
		{"it vanishes while it is erased", func(*memoryDisk, *disk) {}, []method{
			eraser("vanish", true, func(m *memoryDisk) {
				m.read = func(int64, int) error { return unix.ENODEV }
				m.write = m.read1
			}),
			honest[0],
		}, "no such device"},
		{"it has another size afterwards", func(*memoryDisk, *disk) {}, []method{
			eraser("shrink", true, func(m *memoryDisk) { m.content = make([]byte, whole/2) }),
		}, "had 16777216 bytes and has 8388608 now"},
		{"all methods fail", func(*memoryDisk, *disk) {}, []method{eraser("a", true, nothing), eraser("b", true, nothing)},
			"none of 2 methods erased it; the last: b: 64 of 64 markers"},
		{"no method fits", func(*memoryDisk, *disk) {}, nil, "no method of erasing fits"},
		{"too small", func(m *memoryDisk, d *disk) { m.content = m.content[:8192]; d.bytes = 8192 }, honest, "too few to prove"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemoryDisk(whole)
			e := &erasure{machine: withDisk(m, answers{}), disk: m.disk("sdx", "", "ssd"), progress: newProgress()}
			c.disk(m, &e.disk)
			r := e.run(t.Context(), c.methods)
			if r.OK || r.Method != "" || r.Verified != "" || !strings.Contains(r.Error, c.why) {
				t.Errorf("receipt %+v, want an error with %q", r, c.why)
			}
		})
	}
}

// read1 is read as a function of writes.
func (m *memoryDisk) read1(offset int64, length int) error { return m.read(offset, length) }

func TestAnErasureEndsWithItsContext(t *testing.T) {
	for _, m := range []method{
		{"overwrite", true, always, overwrite}, {"zero", true, always, zero}, {"discard and zero", true, always, discardAndZero},
	} {
		t.Run(m.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d := newMemoryDisk(300 * mib)
			stop := func(int64, int64) error { cancel(); return nil }
			d.discard, d.zero = stop, stop
			d.write = func(_ int64, length int) error {
				if length == writeStep {
					cancel()
				}
				return nil
			}
			e := &erasure{machine: withDisk(d, answers{}), disk: d.disk("sdx", "", "ssd"), progress: newProgress()}
			r := e.run(ctx, []method{m, eraser("never", true, everything)})
			if r.OK || !strings.Contains(r.Error, "canceled") || d.content[len(d.content)/2] == 0 {
				t.Errorf("receipt %+v", r)
			}
		})
	}
}

// A region that a method left out is seen for sure if it is longer than two of the parts that have a marker each.
func TestAHoleIsFoundWhereverItIs(t *testing.T) {
	testall.Only(t)
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.Int64Range(256, 1024).Draw(t, "blocks")
		size := blocks*blockSize + 512*rapid.Int64Range(0, 7).Draw(t, "sectors")
		d := newMemoryDisk(size)
		zeroes := rapid.Bool().Draw(t, "zeroes")
		p, err := newProof(size)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := errors.Join(p.record(ctx, d), p.mark(d)); err != nil {
			t.Fatal(err)
		}
		hole := 2*size/markerCount + 2*blockSize
		start := rapid.Int64Range(0, size-hole).Draw(t, "start")
		kept := slices.Clone(d.content[start : start+hole])
		if zeroes {
			everything(d)
		} else {
			d.scramble()
		}
		if _, err := p.verify(ctx, d, zeroes); err != nil {
			t.Fatalf("a disk that was erased is refused: %v", err)
		}
		copy(d.content[start:], kept)
		if words, err := p.verify(ctx, d, zeroes); err == nil {
			t.Fatalf("%d bytes left at %d of %d were not found: %s", hole, start, size, words)
		}
	})
}

func TestPlacesAreOnTheDiskAndSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(4*blockSize, 1<<44).Draw(t, "size") / 512 * 512
		last := int64(-1)
		for i, place := range markerPlaces(size) {
			if place%blockSize != 0 || place <= last || place+markerSize > size {
				t.Fatalf("marker %d at %d of %d, the one before at %d", i, place, size, last)
			}
			last = place
		}
		end := int64(0)
		samples := samplesOf(size)
		for i, s := range samples {
			if s.offset%512 != 0 || s.length%512 != 0 || s.offset < end || s.offset+s.length > size ||
				s.length > sampleSize+blockSize {
				t.Fatalf("sample %d of %+v on %d bytes, the one before ends at %d", i, s, size, end)
			}
			end = s.offset + s.length
		}
		if samples[0].offset != 0 || end != size {
			t.Fatalf("samples begin at %d and end at %d of %d", samples[0].offset, end, size)
		}
	})
}

// loop is a real block device on a file with a tenant's data.
func loop(t *testing.T, size int64) (path, file string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	file = filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(file)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for offset := int64(0); offset < size; offset += 4 * mib {
		_, err := f.WriteAt([]byte("tenant's data"), offset)
		must(t, err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("no loop devices here: %s", out)
	}
	path = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", path).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %s", path, out)
		}
	})
	return path, file
}

func TestABlockDeviceIsErased(t *testing.T) {
	testall.Only(t)
	for _, c := range []struct {
		name     string
		size     int64
		discards bool
		skip     []string
		verified string
	}{
		{"discard and zero", 24*mib + 512, true, nil, "all of 24 MiB read as zero; none of 64 markers is left"},
		{"zero", 24 * mib, false, nil, "all of 24 MiB read as zero; none of 64 markers is left"},
		{"overwrite", 24*mib + 1024, false, []string{"zero"}, "all of 24 MiB read as zero; none of 64 markers is left"},
		{"discard and zero", 1100 * mib, true, nil, "512 samples of 1 MiB read as zero; none of 64 markers is left"},
	} {
		t.Run(fmt.Sprintf("%s %d MiB", c.name, c.size/mib), func(t *testing.T) {
			path, file := loop(t, c.size)
			m := newMachine(Options{Root: "/nonexistent", Tools: answers{}}, os.Stderr)
			d := disk{path: path, bytes: c.size, discards: c.discards, controller: "loop"}
			d.Name = filepath.Base(path)
			methods := slices.DeleteFunc(ladder(), func(m method) bool { return slices.Contains(c.skip, m.name) })
			r := (&erasure{machine: m, disk: d, progress: newProgress()}).run(t.Context(), methods)
			if !r.OK || r.Method != c.name || r.Verified != c.verified || r.Tried != nil {
				t.Fatalf("receipt %+v", r)
			}
			content, err := os.ReadFile(file)
			must(t, err)
			if content[0] != 0 || !uniform(content) {
				t.Error("the file is not all zeros")
			}
		})
	}
}

func TestABlockDeviceInUseIsLeftAlone(t *testing.T) {
	path, file := loop(t, 8*mib)
	before, err := os.ReadFile(file)
	must(t, err)
	holder, err := os.OpenFile(path, os.O_RDONLY|os.O_EXCL, 0) // as a mounted file system does
	must(t, err)
	defer holder.Close()
	d := disk{path: path, bytes: 8 * mib}
	d.Name = filepath.Base(path)
	m := newMachine(Options{Root: "/nonexistent", Tools: answers{}}, os.Stderr)
	r := (&erasure{machine: m, disk: d, progress: newProgress()}).run(t.Context(), ladder())
	after, err := os.ReadFile(file)
	must(t, err)
	if r.OK || !strings.Contains(r.Error, "is in use") || !bytes.Equal(before, after) {
		t.Errorf("receipt %+v", r)
	}
}

func TestAFileIsNoDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sda")
	must(t, os.WriteFile(path, make([]byte, 8*mib), 0o600))
	d := disk{path: path, bytes: 8 * mib}
	d.Name = "sda"
	if _, err := openBlock(d, true); err == nil || !strings.Contains(err.Error(), "no block device") {
		t.Errorf("open: %v", err)
	}
}

func TestProgressNamesTheDisksAndCountsTheRest(t *testing.T) {
	p := newProgress()
	for _, name := range []string{"sdb", "sda", "nvme10n1", "nvme9n1", "sdc", "sdd"} {
		p.say(name, "erasing "+name)
	}
	p.say("sdc", "")
	want := "erasing nvme9n1; erasing nvme10n1; erasing sda; erasing sdb; and 1 more"
	if text := p.text(); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	told := 0
	p.report(ctx, func(text string) error { told++; return errDisk })
	if told != 1 {
		t.Errorf("told %d times in 50 ms, want once", told)
	}
}
