package opensm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
)

// three is an intent with three tenants on hosts 1 to 6, managed from host 0.
func three() fabric.Intent {
	i := fabric.Intent{Managers: ports(0, 1)}
	for n, as := range []fabric.Membership{fabric.Full, fabric.Full, fabric.Limited} {
		p := fabric.Partition{Key: fabric.Key(n + 1), Members: map[fabric.GUID]fabric.Membership{}}
		for _, port := range ports(2*n+1, 2*n+3) {
			p.Members[port] = as
		}
		i.Partitions = append(i.Partitions, p)
	}
	return i
}

func TestAFileSaysWhatTheIntentSays(t *testing.T) {
	i := three()
	i.Partitions = append(i.Partitions, fabric.Partition{Key: fabric.LastKey})
	file, err := write(i)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(file)
	if err != nil || !maps.EqualFunc(again.Tables(), i.Tables(), slices.Equal) {
		t.Errorf("%v, %v", again, err)
	}
	for line := range bytes.Lines(file) {
		if len(line) > longestLine {
			t.Errorf("a line is long: %s", line)
		}
	}
	for n := range file {
		if _, err := Parse(file[:n]); err == nil {
			t.Fatalf("the first %d bytes of %d are taken for the whole", n, len(file))
		}
	}
}

// spoiled are files that somebody could have written, or a disk could have left, and what opensm made of them when it was
// asked: all ports in one partition, two tenants in one, a tenant without its own.
func spoiled() map[string]string {
	whole := string(Render(three()))
	lines := strings.SplitAfter(whole, "\n")
	at := func(n int, line string) string { return strings.Join(slices.Insert(slices.Clone(lines), n, line), "") }
	swap := func(old, new string) string { return strings.Replace(whole, old, new, 1) }
	long := strings.Repeat(fmt.Sprintf("%s=full,", fabrictest.HostPort(1)), 165)
	one, three := fabrictest.HostPort(1).String(), fabrictest.HostPort(3).String()
	return map[string]string{
		"empty":                           "",
		"comments only":                   "# nothing\n",
		"cut inside a name":               strings.Join(lines[:4], "") + "p00",
		"garbage first":                   "garbage\n" + whole,
		"garbage last":                    whole + "garbage\n",
		"a line without its end":          swap("p0001=0x0001,ipoib : "+one+"=full ;", "p0001=0x0001,ipoib : "+one+"=full"),
		"a GUID that is none":             swap(one, "0x0002c90300zz"),
		"a GUID without 0x":               swap(one, one[2:]),
		"a sign in a name":                swap("p0001=0x0001,ipoib : "+one, "p#1=0x0001,ipoib : "+one),
		"a line of more than 4094 bytes":  at(4, "p0001=0x0001,ipoib : "+long+one+"=full ;\n"),
		"cut inside a GUID":               whole[:strings.Index(whole, three)+10],
		"cut between two lines":           strings.Join(lines[:6], ""),
		"a key with its top bit":          strings.ReplaceAll(whole, "p0002=0x0002", "p0002=0x8001"),
		"a key of 17 bits":                strings.ReplaceAll(whole, "p0002=0x0002", "p0002=0x10001"),
		"a tenant with the default key":   strings.ReplaceAll(whole, "p0002=0x0002", "p0002=0x7fff"),
		"a tenant with key zero":          strings.ReplaceAll(whole, "p0001=0x0001", "p0001=0x0"),
		"a membership that is none":       swap(one+"=full", one+"=fulll"),
		"no default partition":            strings.Join(slices.Concat(lines[:2], lines[4:]), ""),
		"a port twice, last time limited": whole + "p0001=0x0001,ipoib : " + one + "=limited ;\n",
		"a port of another tenant":        whole + "p0001=0x0001,ipoib : " + three + "=full ;\n",
		"all ports full members":          swap("ALL=limited", "ALL=full"),
	}
}

func TestAFileThatOpenSMWouldMisreadNeverReachesIt(t *testing.T) {
	network := []byte(fabrictest.FatTree(8, 8, 1))
	if err := preflight(t.Context(), t.TempDir(), network, Render(three()), three()); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	// With these opensm may do what was meant, by luck: the first free key is the tenant's, the line is cut at a place that
	// does no harm. That no error comes of them means that it was so; they are not Muster's all the same.
	lucky := []string{"a line of more than 4094 bytes", "a tenant with key zero", "no default partition"}
	for name, text := range spoiled() {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: it is read back as if Muster had written it", name)
		}
		err := preflight(t.Context(), t.TempDir(), network, []byte(text), three())
		if !errors.Is(err, fabric.ErrRefused) && (err != nil || !slices.Contains(lucky, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFileThatIsChangedBehindOurBackIsPutBack(t *testing.T) {
	r := newRig(t, 8, 8, 1, 1)
	opensm := r.managers[0]
	host := opensm.manager
	if err := r.driver.Apply(t.Context(), three()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(host.File)
	if err != nil {
		t.Fatal(err)
	}
	remove := func() error { return os.Remove(host.File) }
	put := func(text string) func() error {
		return func() error { return os.WriteFile(host.File, []byte(text), 0o600) }
	}
	for name, change := range map[string]func() error{
		"missing":   remove,
		"a folder":  func() error { return errors.Join(remove(), os.Mkdir(host.File, 0o700)) },
		"empty":     put(""),
		"cut":       put(string(whole[:len(whole)-40])),
		"a symlink": func() error { return errors.Join(remove(), os.Symlink("/dev/null", host.File)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		before := opensm.said()
		seen, err := r.driver.Observe(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := fabric.Compare(three(), seen); d != nil {
			t.Errorf("%s: %v", name, d)
		}
		if now, err := os.ReadFile(host.File); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s: it was not put back: %v", name, err)
		}
		opensm.swept(t, before) // it was signalled: what is changed next would be read with what was put back
	}
	// opensm has read a bad one, and all tenants hear each other: the next Apply ends it.
	before := opensm.said()
	if err := errors.Join(put("garbage\n")(), host.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
	opensm.swept(t, before)
	if err := r.driver.Apply(t.Context(), three()); err != nil {
		t.Error(err)
	}
}

// sabotaged is a manager whose file somebody else spoils in the moment before it is signalled.
type sabotaged struct {
	Host
	once *bool
}

func (s sabotaged) Reload(ctx context.Context) error {
	if !*s.once {
		*s.once = true
		if err := os.WriteFile(s.File, []byte("garbage\n"), 0o600); err != nil {
			return err
		}
	}
	return s.Host.Reload(ctx)
}

func TestAFabricThatIsOpenedIsClosedAgain(t *testing.T) {
	r := newRig(t, 8, 8, 1, 1)
	if err := r.driver.Apply(t.Context(), three()); err != nil {
		t.Fatal(err)
	}
	next := three()
	next.Partitions[0].Members[fabrictest.HostPort(7)] = fabric.Full
	good := r.driver.Managers[0]
	r.driver.Managers[0] = sabotaged{r.managers[0].manager, new(bool)}
	err := r.driver.Apply(t.Context(), next)
	if err == nil || errors.Is(err, fabric.ErrRefused) || errors.Is(err, fabric.ErrResisted) ||
		!strings.Contains(err.Error(), "PARSE ERROR") || !strings.Contains(err.Error(), "are back") {
		t.Errorf("it said: %v", err)
	}
	seen, err := r.driver.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := fabric.Compare(three(), seen); d != nil {
		t.Errorf("what was before is not back: %v", d)
	}
	r.driver.Managers[0] = good
	if err := r.driver.Apply(t.Context(), next); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Render(three()))
	f.Add(Render(fabric.Intent{Managers: ports(0, 2)}))
	for _, text := range spoiled() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		i, err := Parse(file)
		if err != nil {
			return
		}
		if again, err := Parse(Render(i)); err != nil || !maps.EqualFunc(again.Tables(), i.Tables(), slices.Equal) {
			t.Errorf("%q is read as %v, and what is written of that as %v: %v", file, i, again, err)
		}
	})
}

// FuzzParseLines goes behind the sum over the file.
func FuzzParseLines(f *testing.F) {
	for _, text := range spoiled() {
		f.Add(text)
	}
	f.Add(strings.SplitN(string(Render(three())), "\n", 3)[2])
	f.Fuzz(func(t *testing.T, text string) {
		i, err := parseLines(strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
		if err == nil && i.Check() != nil {
			t.Errorf("%q is taken, and is no intent", text)
		}
	})
}

func TestWhatAKilledTrialLeftIsSwept(t *testing.T) {
	scratch := t.TempDir()
	for name, age := range map[string]time.Duration{trials + "old": 2 * time.Hour, trials + "new": time.Minute,
		"other": 2 * time.Hour} {
		folder, then := filepath.Join(scratch, name), time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Join(folder, "in"), 0o700), os.Chtimes(folder, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	sweep(scratch)
	left, err := filepath.Glob(filepath.Join(scratch, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("%v are left: %v", left, err)
	}
}
