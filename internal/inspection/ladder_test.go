package inspection

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// drive is a disk behind the programs that speak to its controller: nvme, hdparm and sg_sanitize.
type drive struct {
	disk *memoryDisk

	// NVMe
	sanicap  uint32 // bit 0: crypto erase, bit 1: block erase
	formats  bool   // format is offered
	crypto   bool   // format with crypto erase is offered
	sanitize string // "works", "lies", "fails"
	format   string // "works", "lies", "refuses"
	state    int
	percent  uint16

	// ATA
	security int
	word59   int
	password string
	erase    string // "works", "lies", "fails", "is refused"

	// SCSI
	polls int

	calls []string
}

func (d *drive) Run(_ context.Context, argv ...string) ([]byte, error) {
	line := strings.Join(argv, " ")
	d.calls = append(d.calls, line)
	has := func(s string) bool { return strings.Contains(line, s) }
	switch {
	case has("nvme id-ctrl"):
		data := make([]byte, 4096)
		binary.LittleEndian.PutUint32(data[328:], d.sanicap)
		if d.formats {
			data[256] = 2
		}
		if d.crypto {
			data[524] = 4
		}
		return data, nil
	case has("nvme get-log"):
		log := make([]byte, 512)
		if d.state == sanitizeInProgress {
			d.percent += 20000
			if d.percent >= 60000 {
				d.finishSanitize()
			}
		}
		binary.LittleEndian.PutUint16(log, d.percent)
		binary.LittleEndian.PutUint16(log[2:], uint16(d.state)|1<<8)
		return log, nil
	case has("--sanact=1"):
		if d.state == sanitizeFailed {
			d.state, d.disk.write, d.disk.read = sanitizeNever, nil, nil
		}
		return nil, nil
	case has("nvme sanitize"):
		d.state, d.percent = sanitizeInProgress, 0
		return nil, nil
	case has("nvme format"):
		if d.format == "refuses" {
			return nil, errors.New("NVMe status: ACCESS_DENIED")
		}
		if d.format == "works" {
			clear(d.disk.content)
		}
		return nil, nil
	case has("hdparm --Istdout"):
		return []byte(identifyText(d.word59, d.security)), nil
	case has("--security-unlock"), has("--security-disable"):
		if !has(" " + d.password + " ") {
			return []byte("SG_IO: bad/missing sense data"), nil // as hdparm does
		}
		if d.security &^= ataLocked; has("--security-disable") {
			d.security &^= ataEnabled
		}
		return nil, nil
	case has("--security-set-pass"):
		d.security |= ataEnabled
		d.password = ataPassword
		return nil, nil
	case has("--security-erase"):
		if d.erase == "fails" {
			return nil, errDisk
		}
		if d.erase == "is refused" {
			return []byte("SG_IO: bad/missing sense data"), nil // as hdparm does
		}
		d.security &^= ataEnabled
		if d.erase == "works" {
			clear(d.disk.content)
		}
		return nil, nil
	case has("--sanitize-status"):
		if d.polls--; d.polls > 0 {
			return []byte("Sanitize status:\n    State:    SD2 Sanitize operation In Process\n    Progress: 0x8000 (50%)\n"), nil
		}
		return []byte("Sanitize status:\n    State:    SD0 Sanitize Idle\n    Last Sanitize Operation Completed Without Error\n"),
			nil
	case has("--sanitize-"), has("sg_sanitize --crypto"):
		d.disk.scramble()
		d.polls = 3
		return nil, nil
	case has("sg_sanitize"):
		return nil, errors.New("sg_sanitize: exit status 5: Illegal request, Invalid opcode")
	case has("sg_requests --progress"):
		if d.polls--; d.polls > 0 {
			return []byte("Progress indication: 50.00% done\n"), nil
		}
		return nil, nil
	}
	return nil, fmt.Errorf("%s: not found", argv[0])
}

func (d *drive) finishSanitize() {
	d.percent, d.state = 65535, sanitizeDone
	switch d.sanitize {
	case "works":
		d.disk.scramble()
	case "fails": // as the standard has it, the disk refuses everything until it is let out
		d.state = sanitizeFailed
		d.disk.read = func(int64, int) error { return errDisk }
		d.disk.write = d.disk.read
	}
}

// identifyText is what hdparm --Istdout writes.
func identifyText(word59, security int) string {
	var words [256]int
	words[59], words[89], words[90], words[128] = word59, 30, 0x8000|300, security
	text := "\n/dev/sda:\n"
	for i, w := range words {
		text += fmt.Sprintf("%04x", w)
		if i%8 == 7 {
			text += "\n"
		} else {
			text += " "
		}
	}
	return text
}

func TestTheLadderIsClimbedDownToWhatWorks(t *testing.T) {
	const notOffered = "the disk does not offer it"
	for _, c := range []struct {
		name      string
		drive     drive
		bus, kind string
		method    string
		tried     []string
		called    string // a command that must have been given
		never     string // and one that must not
	}{
		{name: "NVMe with sanitize", drive: drive{sanicap: 3, formats: true, sanitize: "works"}, bus: "nvme", kind: "nvme",
			method: "nvme sanitize: block erase", called: "nvme sanitize /dev/d0 --ause --sanact=2", never: "format"},
		{name: "NVMe with crypto erase alone", drive: drive{sanicap: 1, sanitize: "works"}, bus: "nvme", kind: "nvme",
			method: "nvme sanitize: crypto erase", tried: []string{"nvme sanitize: block erase: " + notOffered},
			called: "--sanact=4"},
		{name: "NVMe whose sanitize fails", drive: drive{sanicap: 2, formats: true, sanitize: "fails", format: "works"},
			bus: "nvme", kind: "nvme",
			method: "nvme format: user data", called: "--sanact=1",
			tried: []string{"nvme sanitize: block erase: the disk says that it failed", "nvme sanitize: crypto erase: " +
				notOffered}},
		{name: "NVMe whose sanitize and format do nothing",
			drive: drive{sanicap: 2, formats: true, crypto: true, sanitize: "lies", format: "lies"}, bus: "nvme", kind: "nvme",
			method: "zero", called: "--ses=2", never: "--ses=0",
			tried: []string{"nvme sanitize: block erase: 64 of 64 markers are still readable", "nvme sanitize: crypto erase: " +
				notOffered,
				"nvme format: user data: 64 of 64 markers are still readable",
				"nvme format: crypto erase: 64 of 64 markers are still readable"}},
		{name: "NVMe without crypto erase", drive: drive{formats: true, format: "works"}, bus: "nvme", kind: "nvme",
			method: "nvme format: user data", called: "--ses=1", never: "--ses=2",
			tried: []string{"nvme sanitize: block erase: " + notOffered, "nvme sanitize: crypto erase: " + notOffered}},
		{name: "NVMe that an earlier sanitize still keeps busy",
			drive: drive{sanicap: 2, sanitize: "works", state: sanitizeInProgress}, bus: "nvme", kind: "nvme",
			method: "nvme sanitize: block erase"},
		{name: "SATA with sanitize", drive: drive{word59: ataSanitizeOffered | ataCryptoScramble}, bus: "sata", kind: "ssd",
			method: "ata sanitize: crypto scramble", tried: []string{"ata sanitize: block erase: " + notOffered},
			called: "--sanitize-crypto-scramble"},
		{name: "SATA with secure erase", drive: drive{security: ataSecurity, erase: "works"}, bus: "sata", kind: "hdd",
			method: "ata secure erase", called: "hdparm --user-master u --security-erase muster /dev/d0",
			tried: []string{"ata sanitize: block erase: " + notOffered, "ata sanitize: crypto scramble: " + notOffered,
				"ata secure erase, enhanced: " + notOffered}},
		{name: "SATA whose secure erase fails and leaves a password", drive: drive{security: ataSecurity, erase: "fails"},
			bus: "sata", kind: "hdd",
			method: "zero", called: "--security-disable muster",
			tried: []string{"ata sanitize: block erase: " + notOffered, "ata sanitize: crypto scramble: " + notOffered,
				"ata secure erase, enhanced: " + notOffered,
				"ata secure erase: input/output error; the disk has kept the password that an erasure removes"}},
		{name: "SATA whose secure erase is refused without an error", drive: drive{security: ataSecurity, erase: "is refused"},
			bus: "sata", kind: "hdd",
			method: "zero", called: "--security-disable muster",
			tried: []string{"ata sanitize: block erase: " + notOffered, "ata sanitize: crypto scramble: " + notOffered,
				"ata secure erase, enhanced: " + notOffered,
				"ata secure erase: the disk has kept the password that an erasure removes"}},
		{name: "SATA that the firmware has frozen", drive: drive{security: ataSecurity | ataFrozen | ataEnhancedErase},
			bus: "sata", kind: "hdd",
			method: "zero", never: "set-pass",
			tried: []string{"ata sanitize: block erase: " + notOffered, "ata sanitize: crypto scramble: " + notOffered,
				"ata secure erase, enhanced: the firmware has frozen the disk's security commands; a firmware setting may " +
					"allow them",
				"ata secure erase: the firmware has frozen the disk's security commands; a firmware setting may allow them"}},
		{name: "SATA with the password of an interrupted erasure",
			drive: drive{security: ataSecurity | ataEnabled | ataLocked | ataEnhancedErase, password: ataPassword,
				erase: "works"}, bus: "sata", kind: "ssd",
			method: "ata secure erase, enhanced", tried: []string{"ata sanitize: block erase: " + notOffered,
				"ata sanitize: crypto scramble: " + notOffered}},
		{name: "SATA with somebody's password", drive: drive{security: ataSecurity | ataEnabled, password: "tenant"}, bus: "sata",
			kind:   "ssd",
			method: "zero", never: "set-pass",
			tried: []string{"ata sanitize: block erase: " + notOffered, "ata sanitize: crypto scramble: " + notOffered,
				"ata secure erase, enhanced: " + notOffered,
				"ata secure erase: somebody has set an ATA password on the disk; remove it with hdparm --security-disable, or " +
					"the disk"}},
		{name: "SAS", drive: drive{}, bus: "sas", kind: "ssd", method: "scsi sanitize: crypto erase",
			called: "sg_sanitize --crypto --ause --early --quick /dev/d0",
			tried:  []string{"scsi sanitize: block erase: sg_sanitize: exit status 5: Illegal request, Invalid opcode"}},
		{name: "virtual", drive: drive{}, bus: "virtio", kind: "virtual", method: "zero"},
		{name: "virtual on SATA", drive: drive{}, bus: "sata", kind: "virtual", method: "zero", never: "hdparm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.drive.disk = newMemoryDisk(4 * mib)
				e := &erasure{machine: withDisk(c.drive.disk, &c.drive), disk: c.drive.disk.disk("d0", c.bus, c.kind),
					progress: newProgress()}
				r := e.run(t.Context(), ladder())
				if !r.OK || r.Method != c.method {
					t.Fatalf("receipt %+v, want %q", r, c.method)
				}
				if fmt.Sprintf("%q", r.Tried) != fmt.Sprintf("%q", c.tried) {
					t.Errorf("tried\n%q, want\n%q", r.Tried, c.tried)
				}
				calls := strings.Join(c.drive.calls, "\n")
				if !strings.Contains(calls, c.called) || c.never != "" && strings.Contains(calls, c.never) {
					t.Errorf("calls:\n%s\nwant %q and never %q", calls, c.called, c.never)
				}
			})
		})
	}
}

func TestNoMethodFormatsWithoutErasing(t *testing.T) {
	for _, m := range ladder() {
		if strings.Contains(m.name, "nvme format") {
			d := drive{disk: newMemoryDisk(4 * mib), formats: true, crypto: true, format: "works"}
			e := &erasure{machine: withDisk(d.disk, &d), disk: d.disk.disk("d0", "nvme", "nvme"), progress: newProgress()}
			must(t, m.do(t.Context(), e, func(string) {}))
			if call := d.calls[0]; !strings.Contains(call, "--ses=1") && !strings.Contains(call, "--ses=2") {
				t.Errorf("%s calls %s", m.name, call)
			}
		}
	}
}

func TestADiskThatGetsNoFurtherIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := await(t.Context(), func(string) {}, func() (bool, float64, error) { return false, 40, nil })
		if err == nil || !strings.Contains(err.Error(), "no progress beyond 40 %") || time.Since(began) > stallLimit+time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestAToolWhoseDiskHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{make(chan struct{})}
		defer close(h.release)
		m := newMachine(Options{Tools: h}, t.Output())
		if _, err := m.run(t.Context(), time.Minute, "smartctl"); err == nil ||
			!strings.Contains(err.Error(), "smartctl: no result after 1m0s") {
			t.Errorf("%v", err)
		}
	})
}

func TestDisksAreErasedAtTheSameTimeUnlessTheyShareAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disks []disk
		open := map[string]*memoryDisk{}
		for i, controller := range []string{"a", "b", "b", "c", "d"} {
			d := newMemoryDisk(4 * mib)
			d.zero = func(offset, length int64) error { time.Sleep(time.Hour); return d.clear(offset, length) }
			one := d.disk(fmt.Sprintf("vd%d", i), "virtio", "virtual")
			one.controller = controller
			if i >= 3 {
				one.Serial = "two paths"
			} else {
				one.Serial = ""
			}
			disks, open[one.Name] = append(disks, one), d
		}
		m := withDisk(nil, answers{})
		m.open = func(d disk, _ bool) (device, error) { return open[d.Name], nil }
		began := time.Now()
		receipts := m.erase(t.Context(), disks, newProgress())
		if took := time.Since(began); took != 2*time.Hour {
			t.Errorf("took %v, want 2h", took)
		}
		for i, r := range receipts {
			if !r.OK || r.Disk != disks[i].Name || r.Took != time.Hour {
				t.Errorf("receipt %d: %+v", i, r)
			}
		}
	})
}

func FuzzErasers(f *testing.F) {
	real, err := os.ReadFile("testdata/qemu.identify") // hdparm --Istdout of a QEMU disk
	must(f, err)
	if _, err := parseIdentify(string(real)); err != nil {
		f.Error(err)
	}
	f.Add(real)
	f.Add([]byte(identifyText(ataSanitizeOffered|ataBlockErase, ataSecurity)))
	f.Add([]byte("Sanitize status:\n    State:    SD2 Sanitize operation In Process\n    Progress: 0x1e (0%)\n"))
	f.Add([]byte("Progress indication: 12.34% done\n"))
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, text []byte) {
		if can, err := parseIdentify(string(text)); err == nil && (can.normalTime < 0 || can.enhanced < 0) {
			t.Errorf("%+v", can)
		}
		if s, err := parseATASanitize(string(text)); err == nil && (s.percent < 0 || s.percent > 100) {
			t.Errorf("%+v", s)
		}
		if s, err := parseSanitizeStatus(text); err == nil && (s.percent < 0 || s.percent > 100 || s.state > 7) {
			t.Errorf("%+v", s)
		}
		if percent, _ := parseSCSIProgress(text); !(percent >= 0 && percent <= 100) {
			t.Errorf("%v", percent)
		}
		_, _ = parseIdentifyController(text)
	})
}
