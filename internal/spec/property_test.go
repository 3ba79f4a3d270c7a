package spec

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// clusters draws what a file can say today, whole and in part.
func clusters() *rapid.Generator[Cluster] {
	label := rapid.StringMatching(`[a-z]([a-z0-9-]{0,8}[a-z0-9])?`)
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9._-]{0,8}[a-z0-9])?`)
	perhaps := rapid.OneOf(rapid.Just(""), name,
		rapid.SampledFrom([]string{"true", "null", "no", "on", "1e5", "0x10", "007", "1.5", "5d", "2027-03-01"}))
	return rapid.Custom(func(t *rapid.T) Cluster {
		c := Cluster{
			Name: label.Draw(t, "name"), Project: perhaps.Draw(t, "project"), Image: perhaps.Draw(t, "image"),
			Isolation: rapid.SampledFrom([]string{"", "auto", "local"}).Draw(t, "isolation"),
		}
		if site := perhaps.Draw(t, "site"); site != "" {
			c.Site = []string{site}
		}
		if rapid.Bool().Draw(t, "head") {
			c.Head = &Head{Class: perhaps.Draw(t, "head class")}
		}
		if rapid.Bool().Draw(t, "lease") {
			c.Lease = &Lease{
				Start: rapid.SampledFrom([]string{"", Now, "+90s", "2027-03-01T08:00:00+01:00"}).Draw(t, "start"),
				For:   rapid.SampledFrom([]string{"", "10s", "5d", "9999999m"}).Draw(t, "for"),
				OnEnd: rapid.SampledFrom([]string{"", OnEndPause, OnEndDelete}).Draw(t, "on_end"),
			}
		}
		if rapid.Bool().Draw(t, "storage") {
			c.Storage = []Storage{{Mount: "/home"}}
		}
		if rapid.Bool().Draw(t, "short") {
			c.Nodes = rapid.IntRange(1, maxNodes).Draw(t, "nodes")
			return c
		}
		for i := range rapid.IntRange(1, 5).Draw(t, "queues") {
			q := Queue{Name: fmt.Sprintf("q%d-%c", i, 'a'+i), Class: perhaps.Draw(t, "class"),
				Placement: rapid.SampledFrom([]string{"", "any", "compact", "same-switch"}).Draw(t, "placement")}
			n := rapid.IntRange(0, maxNodes).Draw(t, "size")
			if rapid.Bool().Draw(t, "fixed") {
				q.Nodes = &n
			} else {
				q.Min, q.Max = &n, &n
			}
			c.Queues = append(c.Queues, q)
		}
		return c
	})
}

func TestWhatIsRenderedParsesToTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := clusters().Draw(t, "cluster")
		text := Render(c)
		doc, err := Parse("", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(c, doc.Cluster); diff != "" {
			t.Fatalf("(-before +after):\n%s\n%s", diff, text)
		}
	})
}

func TestToResolveTwiceIsToResolveOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once, err := Resolve(clusters().Draw(t, "cluster"), catalogue)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := Resolve(once, Defaults{})
		if diff := cmp.Diff(once, twice); err != nil || diff != "" {
			t.Fatalf("%v (-once +twice):\n%s", err, diff)
		}
	})
}

func TestAClusterDoesNotDifferFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := clusters().Draw(t, "cluster")
		if changes := Diff(c, c); len(changes) > 0 {
			t.Fatalf("%+v", changes)
		}
	})
}

func TestTwoClustersDifferExactlyIfTheirTextsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := clusters().Draw(t, "a"), clusters().Draw(t, "b")
		if same := bytes.Equal(Render(a), Render(b)); same == (len(Diff(a, b)) > 0) && a.Head == nil && b.Head == nil {
			t.Fatalf("changes %+v between\n%s\n%s", Diff(a, b), Render(a), Render(b))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		for _, src := range corpus(f, folder) {
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := Parse("cluster.yaml", src)
		if err != nil {
			for _, d := range diagnose(t, "cluster.yaml", src) {
				if d.Line < 1 || d.Col < 1 || d.Code == "" || d.Text == "" {
					t.Errorf("incomplete: %+v", d)
				}
			}
			return
		}
		again := mustParse(t, "rendered", Render(doc.Cluster))
		if diff := cmp.Diff(doc.Cluster, again.Cluster); diff != "" {
			t.Errorf("(-parsed +rendered and parsed):\n%s", diff)
		}
		resolved := mustResolve(t, doc.Cluster)
		if changes := Diff(resolved, mustResolve(t, resolved)); len(changes) > 0 {
			t.Errorf("resolving twice changes %+v", changes)
		}
	})
}
