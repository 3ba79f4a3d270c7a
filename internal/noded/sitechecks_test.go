package noded

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/protocol"
)

func TestAFileOfACheckIsReadStrictly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, text, limit, broken string }{
		{"root-disk.yaml", "run: df /\nmost: 90\nunit: \"%\"\n", "at most 90 %", ""},
		{"memory.yaml", "run: free\nleast: 1.5\nunit: GiB\nevery: 30s\non: compute\n", "at least 1.5 GiB", ""},
		{"temperature.yaml", "run: sensors\nleast: -5\nmost: 85\n", "from -5 to 85", ""},
		{"mounts.yaml", "run: mountpoint -q /scratch\n", "succeeds", ""},
		{"no-limit.yaml", "most: 3\n", "", "run: it is missing"},
		{"often.yaml", "run: x\nevery: 1s\n", "", "every: "},
		{"who.yaml", "run: x\non: login\n", "", `on: "login"; write compute or head`},
		{"upside-down.yaml", "run: x\nleast: 3\nmost: 2\n", "", "no value is both"},
		{"unknown.yaml", "run: x\nmax: 3\n", "", "unknown field"},
		{"words.yaml", "run: x\nmost: many\n", "", "[2:7]"},
		{"script.sh", "#!/bin/sh\n", "", "its name is not"},
		{"Upper.yaml", "run: x\n", "", "its name is not"},
	} {
		got := parseSiteCheck(c.file, c.text)
		name := strings.TrimSuffix(c.file, ".yaml")
		switch {
		case c.broken == "" && (got.name != name || got.broken != "" || got.limit() != c.limit):
			t.Errorf("%s: %+v, %s", c.file, got, got.limit())
		case !strings.Contains(got.broken, c.broken) || strings.Contains(got.broken, "\n"):
			t.Errorf("%s: %q, want %q", c.file, got.broken, c.broken)
		case c.broken != "" && got.name != c.file:
			t.Errorf("%s is called %s", c.file, got.name)
		}
	}
}

func TestACheckReadsTheNumberThatOutputBeginsWith(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"93%\n": 93, "  -1.5 C\n12\n": -1.5, "4e3": 4000, "12e": 12, "7 errors": 7} {
		if got, err := firstNumber(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "none", "e", "1e999", "- 3", "NaN", "inf"} {
		if got, err := firstNumber(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A node that starts has failed its checks until they pass. One that works passes new ones until they have failed.
func TestChecksComeAndGoWithTheirFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		put := func(name, text string) {
			t.Helper()
			path := filepath.Join(root, siteChecksDir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var outputs sync.Map // that time has passed orders nothing for the race detector
		for name, text := range map[string]string{"disk": "12 %", "heads": "1", "new": "5"} {
			outputs.Store(name, text)
		}
		r := newReporter(1, []string{"sshd"})
		r.setCheck("sshd", nil)
		ctx, cancel := context.WithCancel(t.Context())
		s := &siteChecks{disk: disk{root: root}, role: protocol.Compute, taken: []string{"sshd"}, reporter: r,
			run: func(_ context.Context, argv ...string) ([]byte, error) {
				out, ok := outputs.Load(argv[len(argv)-1])
				if !ok {
					return nil, errors.New("exit status 1")
				}
				return []byte(out.(string)), nil
			},
			start: func(ctx context.Context, c check) { go c.run(ctx, r) },
		}
		expect := func(when string, want ...protocol.Check) {
			t.Helper()
			synctest.Wait()
			got := r.snapshot().Checks[1:]
			if len(got) != len(want) {
				t.Fatalf("%s: %+v", when, got)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s: %+v, want %+v", when, got[i], want[i])
				}
			}
		}
		percent := protocol.Check{Name: "disk", OK: true, Limit: "at most 90 %", Found: true, Value: 12, Unit: "%"}
		put("disk.yaml", "run: disk\nmost: 90\nunit: '%'\n")
		put("heads.yaml", "run: heads\nmost: 0\non: head\n")
		put("sshd.yaml", "run: disk\n")
		put(".disk.yaml.swp", "")
		taken := protocol.Check{Name: "sshd.yaml", Text: "every node has a check of this name", Limit: "a file that can be read"}
		s.read(true)
		expect("at the start", protocol.Check{Name: "disk", Text: notChecked, Limit: "at most 90 %", Unit: "%"}, taken)
		done := make(chan struct{})
		go func() { s.follow(ctx); close(done) }()
		expect("once it was made", percent, taken)
		outputs.Store("disk", "93")
		time.Sleep(siteCheckEvery)
		full := percent
		full.OK, full.Value, full.Text = false, 93, "93 %, at most 90 %"
		expect("a minute later", full, taken)

		if err := os.Remove(filepath.Join(root, siteChecksDir, "sshd.yaml")); err != nil {
			t.Fatal(err)
		}
		outputs.Store("disk", "50")
		put("new.yaml", "run: new\nleast: 6\n")
		time.Sleep(siteChecksLook)
		half := percent
		half.Value = 50
		low := protocol.Check{Name: "new", Text: "5, at least 6", Limit: "at least 6", Found: true, Value: 5}
		expect("with another one", half, low)
		outputs.Store("new", "none")
		time.Sleep(siteCheckEvery)
		low.Text = `it printed "none", which does not begin with a number`
		expect("what prints no number fails", half, low)
		cancel()
		<-done
	})
}

func FuzzSiteCheck(f *testing.F) {
	f.Add("a.yaml", "run: df /\nmost: 90\nunit: \"%\"\nevery: 30s\non: head\n")
	f.Add("a.sh", "")
	f.Fuzz(func(t *testing.T, file, text string) {
		c := parseSiteCheck(file, text)
		if c.broken == "" && (c.Run == "" || c.every < siteCheckLeast) || c.limit() == "" || c.broken != "" && c.name != file {
			t.Errorf("%+v", c)
		}
	})
}

// What a check writes without end costs the agent nothing, and what it says of its failure is kept.
func TestTheFirstOfWhatACheckWritesCounts(t *testing.T) {
	for command, want := range map[string]struct {
		value, why string
		fails      bool
	}{
		"echo 93; yes | head -c 1000000":         {value: "93\ny\n"},
		"echo no fan >&2; exit 3":                {why: "no fan\n", fails: true},
		"yes | head -c 1000000 >&2; echo 7":      {value: "7\n", why: "y\ny\n"},
		"echo 5; echo sensor is old >&2; exit 0": {value: "5\n", why: "sensor is old\n"},
	} {
		c := exec.Command("bash", "-c", briefly, "check", command)
		var out, failed bytes.Buffer
		c.Stdout, c.Stderr = &out, &failed
		if err := c.Run(); (err != nil) != want.fails || out.Len() > 4096 || failed.Len() > 300 ||
			!strings.HasPrefix(out.String(), want.value) || !strings.HasPrefix(failed.String(), want.why) {
			t.Errorf("%s: %v, %d and %d bytes: %.20q, %.20q", command, err, out.Len(), failed.Len(), &out, &failed)
		}
	}
}
