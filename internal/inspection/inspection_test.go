package inspection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
	"muster/internal/protocol"
)

var errRefused = errors.New("refused")

// recording is a controller that keeps what it hears.
type recording struct {
	asked  protocol.Inspection
	fails  int              // so many calls fail first
	refuse func(Doing) bool // nil: never

	mu    sync.Mutex
	doing []string
	last  *protocol.Findings
	after int // words of progress after the findings
}

// Doing is what an inspection says that it does.
type Doing = string

func (r *recording) Inspection(context.Context) (protocol.Inspection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails > 0 {
		r.fails--
		return protocol.Inspection{}, errDisk
	}
	return r.asked, nil
}

func (r *recording) Findings(_ context.Context, f protocol.Findings) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.refuse != nil && r.refuse(f.Doing):
		return errRefused
	case f.Done && r.fails > 0:
		r.fails--
		return errDisk
	case f.Done:
		r.last = &f
	case r.last != nil:
		r.after++
	default:
		r.doing = append(r.doing, f.Doing)
	}
	return nil
}

func (r *recording) said(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.doing, "|"), what)
}

// inspected is the planted QEMU machine with a disk in memory that takes its time to be zeroed.
func inspected(t *testing.T, zeroing time.Duration, console *bytes.Buffer) (*machine, *memoryDisk) {
	root, tools := plant(t, "qemu")
	m := newMachine(Options{Root: root, Tools: tools, LinkUp: func(string) error { return nil }, Refused: errRefused}, console)
	d := newMemoryDisk(16 * mib)
	d.zero = func(offset, length int64) error { time.Sleep(zeroing); return d.clear(offset, length) }
	write(t, m.Path("sys/block/vda/size"), "32768\n") // of 512 bytes: 16 MiB
	m.open = func(disk, bool) (device, error) { return d, nil }
	return m, d
}

func TestAnInspectionErasesLooksTestsAndTells(t *testing.T) {
	var console bytes.Buffer
	m, d := inspected(t, 0, &console)
	c := &recording{asked: protocol.Inspection{Erase: true, Within: time.Millisecond}, fails: 1}
	const far = "erasing vda: discard and zero zeroing, 0 %"
	d.zero = func(offset, length int64) error {
		for end := time.Now().Add(time.Minute); !c.said(far) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return d.clear(offset, length)
	}
	must(t, m.serve(t.Context(), c))
	if c.last == nil || len(c.last.Erased) != 1 || !c.last.Erased[0].OK || c.last.Erased[0].Method != "discard and zero" ||
		!uniform(d.content) {
		t.Fatalf("findings %+v", c.last)
	}
	var facts inventory.Facts
	must(t, json.Unmarshal(c.last.Facts, &facts))
	if len(facts.Disks) != 1 || facts.CPUs != 2 || len(c.last.Checks) != 6 {
		t.Errorf("facts %+v, checks %+v", facts, c.last.Checks)
	}
	if !c.said(far) {
		t.Errorf("said %q", c.doing)
	}
	if c.after > 0 {
		t.Errorf("%d words of progress came after the findings", c.after)
	}
	for _, line := range []string{"ask what to do: input/output error; again in 1s", "vda is erased: discard and zero",
		"check nics passed"} {
		if !strings.Contains(console.String(), line) {
			t.Errorf("the console does not say %q:\n%s", line, console.String())
		}
	}
}

func TestAnInspectionWithoutErasingTouchesNoDisk(t *testing.T) {
	m, d := inspected(t, 0, &bytes.Buffer{})
	before := bytes.Clone(d.content)
	d.write = func(int64, int) error { t.Error("a disk was written to"); return nil }
	c := &recording{asked: protocol.Inspection{Within: time.Millisecond}}
	must(t, m.serve(t.Context(), c))
	if c.last == nil || c.last.Erased != nil || !bytes.Equal(before, d.content) {
		t.Errorf("findings %+v", c.last)
	}
}

func TestAnInspectionThatIsRefusedEnds(t *testing.T) {
	m, _ := inspected(t, time.Hour, &bytes.Buffer{})
	d := newMemoryDisk(16 * mib)
	d.zero = func(int64, int64) error { time.Sleep(100 * time.Millisecond); return errDisk }
	m.open = func(disk, bool) (device, error) { return d, nil }
	c := &recording{asked: protocol.Inspection{Erase: true, Within: time.Millisecond}, refuse: func(Doing) bool { return true }}
	if err := m.serve(t.Context(), c); !errors.Is(err, errRefused) {
		t.Errorf("ended with %v", err)
	}
	if c.last != nil {
		t.Error("findings were delivered")
	}
}

func TestAnInspectionEndsWithItsContext(t *testing.T) {
	m, d := inspected(t, 0, &bytes.Buffer{})
	ctx, cancel := context.WithCancel(t.Context())
	d.zero = func(int64, int64) error { cancel(); return nil }
	c := &recording{asked: protocol.Inspection{Erase: true, Within: time.Minute}}
	if err := m.serve(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if c.last != nil {
		t.Error("findings of an inspection that was cut off were delivered")
	}
}

func TestAnUnknownMachineOffersItself(t *testing.T) {
	var offered protocol.Enrolment
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path != protocol.EnrolPath || r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&offered) != nil {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	root, tools := plant(t, "server")
	var console bytes.Buffer
	must(t, Enrol(t.Context(), server.URL, &console, Options{Root: root, Tools: tools, LinkUp: func(string) error {
		return nil
	}}))
	var facts inventory.Facts
	must(t, json.Unmarshal(offered.Facts, &facts))
	if want := []string{"0c:42:a1:00:00:11", "0c:42:a1:00:00:12"}; strings.Join(offered.MACs, " ") != strings.Join(want, " ") ||
		facts.Sockets != 2 {
		t.Errorf("offered %v %+v", offered.MACs, facts)
	}
	if !strings.Contains(console.String(), "503 Service Unavailable: the store does not answer; again in 1s") {
		t.Errorf("console:\n%s", console.String())
	}
}

func TestAnEnrolmentLeavesOutVirtualFunctionsBeforeDevices(t *testing.T) {
	facts := shapes.Named("dgx-h100")
	devices := len(facts.Devices)
	for number := range 1000 {
		facts.Devices = append(facts.Devices,
			inventory.Device{Kind: "hca", PCI: fmt.Sprintf("0000:0c:%02x.%x", number/8, number%8), Parent: "0000:0c:00.0"})
	}
	body, err := enrolment(facts)
	must(t, err)
	var e protocol.Enrolment
	must(t, json.Unmarshal(body, &e))
	var got inventory.Facts
	must(t, json.Unmarshal(e.Facts, &got))
	if len(got.Devices) != devices || len(got.Layout) != 112 || len(e.Facts) > enrolLimit {
		t.Errorf("%d devices and %d cores in %d bytes", len(got.Devices), len(got.Layout), len(e.Facts))
	}
	if len(facts.Devices) != devices+1000 {
		t.Errorf("%d devices are left of the caller's", len(facts.Devices))
	}
}

func TestAnEnrolmentKeepsToItsLimit(t *testing.T) {
	var facts inventory.Facts
	for range 2000 {
		facts.Devices = append(facts.Devices, inventory.Device{Kind: "other", PCI: "0000:00:00.0", Name: strings.Repeat("x", 40)})
	}
	facts.CPUs = 7
	body, err := enrolment(facts)
	must(t, err)
	var e protocol.Enrolment
	must(t, json.Unmarshal(body, &e))
	must(t, json.Unmarshal(e.Facts, &facts))
	if len(e.Facts) > enrolLimit || facts.CPUs != 7 {
		t.Errorf("%d bytes of facts", len(e.Facts))
	}
}
