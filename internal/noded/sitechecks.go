package noded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"muster/internal/kit/clock"
	"muster/internal/kit/duration"
	"muster/internal/kit/pattern"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// siteChecksDir is where a node has the site's own checks, one a file; docs/node-checks.md says what is in one. Who is root in
// the node may put more there.
const siteChecksDir = "/etc/muster/checks"

const (
	mostSiteChecks  = 32
	mostCheckFile   = 8 << 10          // bytes
	siteChecksLook  = 10 * time.Second // for files that have changed
	siteCheckEvery  = time.Minute      // unless its file says otherwise
	siteCheckLeast  = 5 * time.Second
	siteCheckMost   = 24 * time.Hour
	siteCheckWithin = 10 * time.Second
)

var siteCheckName = pattern.New(`^([a-z0-9][a-z0-9-]{0,31})\.yaml$`)

// siteCheck is one of the site's own checks: a program whose output begins with a number, and what that is to be.
type siteCheck struct {
	name   string
	every  time.Duration
	broken string // why its file is none

	Run   string        `yaml:"run"`
	Least *float64      `yaml:"least"`
	Most  *float64      `yaml:"most"`
	Unit  string        `yaml:"unit"`
	Every string        `yaml:"every"`
	On    protocol.Role `yaml:"on"`
}

// limit is what it asks for, in words.
func (c siteCheck) limit() string {
	switch {
	case c.broken != "":
		return "a file that can be read"
	case c.Least != nil && c.Most != nil:
		return "from " + words.Amount(*c.Least, "") + " to " + words.Amount(*c.Most, c.Unit)
	case c.Least != nil:
		return "at least " + words.Amount(*c.Least, c.Unit)
	case c.Most != nil:
		return "at most " + words.Amount(*c.Most, c.Unit)
	}
	return "succeeds"
}

// parseSiteCheck reads the file of a check.
func parseSiteCheck(file, text string) siteCheck {
	c := siteCheck{name: file}
	found := siteCheckName.FindStringSubmatch(file)
	if found == nil {
		c.broken = "its name is not one of a-z, 0-9 and -, with .yaml"
		return c
	}
	if err := yaml.UnmarshalWithOptions([]byte(text), &c, yaml.Strict()); err != nil {
		return siteCheck{name: file, broken: yaml.FormatError(err, false, false)}
	}
	var err error
	c.every, err = duration.Within(cmp.Or(c.Every, siteCheckEvery.String()), siteCheckLeast, siteCheckMost)
	switch {
	case err != nil:
		c.broken = "every: " + err.Error()
	case strings.TrimSpace(c.Run) == "":
		c.broken = "run: it is missing; write the command that prints the value"
	case c.On != "" && c.On != protocol.Head && c.On != protocol.Compute:
		c.broken = fmt.Sprintf("on: %q; write %s or %s, or leave it out for both", c.On, protocol.Compute, protocol.Head)
	case c.Least != nil && c.Most != nil && *c.Least > *c.Most:
		c.broken = fmt.Sprintf("least is %v and most is %v: no value is both", *c.Least, *c.Most)
	default:
		c.name = found[1]
	}
	return c
}

// siteChecks runs the site's own checks of a node.
type siteChecks struct {
	disk     disk
	role     protocol.Role
	taken    []string // names of other checks
	reporter *reporter
	run      func(ctx context.Context, argv ...string) ([]byte, error)
	start    func(context.Context, check)

	now []siteCheck
}

// read reports which checks there are, and says whether they are others than before. A node that starts is to pass them first;
// later ones that are new have passed until they were made.
func (s *siteChecks) read(starts bool) bool {
	now := s.list()
	if reflect.DeepEqual(now, s.now) {
		return false
	}
	s.now = now
	var reported []protocol.Check
	for _, c := range now {
		told := protocol.Check{Name: c.name, Limit: c.limit(), Unit: c.Unit}
		if told.OK = !starts && c.broken == ""; !told.OK {
			told.Text = cmp.Or(c.broken, notChecked)
		}
		reported = append(reported, told)
	}
	s.reporter.setSiteChecks(reported)
	return true
}

// list reads the files. What is wrong with one is its check's.
func (s *siteChecks) list() (checks []siteCheck) {
	broken := func(name, why string, args ...any) {
		checks = append(checks, siteCheck{name: name, broken: fmt.Sprintf(why, args...)})
	}
	entries, err := os.ReadDir(s.disk.path(siteChecksDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		broken(path.Base(siteChecksDir), "%v", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || entry.IsDir() {
			continue
		}
		if len(checks) == mostSiteChecks {
			broken(name, "a node makes %d checks at most", mostSiteChecks)
			break
		}
		text, err := s.file(path.Join(siteChecksDir, name))
		if err != nil {
			broken(name, "%v", err)
			continue
		}
		switch c := parseSiteCheck(name, text); {
		case slices.Contains(s.taken, c.name):
			broken(name, "every node has a check of this name")
		case c.broken != "" || c.On == "" || c.On == s.role:
			checks = append(checks, c)
		}
	}
	return checks
}

// file reads one.
func (s *siteChecks) file(name string) (string, error) {
	info, err := os.Stat(s.disk.path(name))
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > mostCheckFile:
		return "", fmt.Errorf("it is no file of at most %d bytes", mostCheckFile)
	}
	return s.disk.read(name)
}

// follow makes the checks, and others when the files have changed, until ctx ends.
func (s *siteChecks) follow(ctx context.Context) {
	for ctx.Err() == nil {
		these, stop := context.WithCancel(ctx)
		for _, c := range s.now {
			if c.broken == "" {
				s.start(these, check{name: c.name, every: c.every, calm: true, within: siteCheckWithin, probe: s.probe(c)})
			}
		}
		for clock.Sleep(ctx, siteChecksLook) == nil && !s.read(false) {
		}
		stop()
	}
}

// briefly runs a command and keeps the first bytes of its output and of its errors, however much it writes.
const briefly = `set -o pipefail
first() { head -c "$1"; cat > /dev/null; }
{ bash -c "$1" 2>&1 >&3 | first 300 >&2; } 3>&1 | first 4096`

// probe runs the command and compares what it prints.
func (s *siteChecks) probe(c siteCheck) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := s.run(ctx, "bash", "-c", briefly, "check", c.Run)
		if err != nil {
			return err
		}
		if c.Least == nil && c.Most == nil {
			return nil
		}
		value, err := firstNumber(string(out))
		if err != nil {
			return err
		}
		s.reporter.setValue(c.name, value)
		if c.Least != nil && value < *c.Least || c.Most != nil && value > *c.Most {
			return fmt.Errorf("%s, %s", words.Amount(value, c.Unit), c.limit())
		}
		return nil
	}
}

// firstNumber is what a text begins with, whatever unit is written to it.
func firstNumber(text string) (float64, error) {
	text = strings.TrimSpace(text)
	number := text[:len(text)-len(strings.TrimLeft(text, "+-.0123456789eE"))]
	value, err := strconv.ParseFloat(strings.TrimRight(number, "eE"), 64)
	if err != nil || math.IsInf(value, 0) {
		return 0, fmt.Errorf("it printed %.40q, which does not begin with a number", text)
	}
	return value, nil
}
