// Package crash_test kills controllers at random moments, as a power cut would, and stops them, as a hung host would.
// Whatever happens, every cluster must come to what was asked for, no machine may be given twice, nothing may be left.
package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/kinds/kindstest"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

type view struct {
	ID, Name, Phase, Reason string
	Generation, Reached     int64
	Nodes                   []struct{ Name, Phase, Machine string }
}

// databases runs a test with controllers on each.
func databases(t *testing.T, test func(t *testing.T, db string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "") })
	t.Run("postgres", func(t *testing.T) { test(t, kindstest.EmptyPostgres(t)) })
}

// kills is how many each database gets.
func kills(t *testing.T) int {
	if text := os.Getenv("MUSTER_CRASH_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 5
	}
	return 8
}

// chaos is what a user asks for, one request after the other, over and over: the controller may die at any of them.
type chaos struct {
	*rig.Rig
	rnd  *rand.Rand
	want map[string]int // cluster → nodes; absent: deleted
}

// ask makes one random request; one that is refused, because a cluster is still on its way out, changes nothing.
func (c *chaos) ask() {
	name := []string{"a", "b"}[c.rnd.IntN(2)]
	n := 1 + c.rnd.IntN(3)
	var got rig.Result
	if _, exists := c.want[name]; !exists {
		got = c.Muster("create", "-f", c.File(name+".yaml", fmt.Sprintf("name: %s\nnodes: %d\n", name, n)))
		if got.Code == 0 {
			c.want[name] = n
		}
	} else if c.rnd.IntN(3) == 0 {
		if got = c.Muster("delete", name); got.Code == 0 || got.Code == 6 {
			delete(c.want, name)
		}
	} else if got = c.Muster("scale", name, strconv.Itoa(n), "--drain-timeout", "1s"); got.Code == 0 {
		c.want[name] = n
	}
	c.Logf("%s: exit %d %s", name, got.Code, strings.TrimSpace(got.Err))
}

// settled waits until every cluster is as asked and checks that nothing is owned twice.
func (c *chaos) settled(limit time.Duration) {
	c.Helper()
	var list struct{ Items []view }
	describe := func() string {
		text := fmt.Sprintf("wanted %v, have:", c.want)
		for _, v := range list.Items {
			text += fmt.Sprintf("\n%s %s %d/%d %s %v", v.Name, v.Phase, v.Reached, v.Generation, v.Reason, v.Nodes)
		}
		return text
	}
	deadline := time.Now().Add(limit)
	for {
		c.Get(&list, "list")
		c.once(list.Items)
		ok := len(list.Items) == len(c.want)
		for _, v := range list.Items {
			ok = ok && v.Phase == "ready" && v.Reached == v.Generation && len(v.Nodes) == c.want[v.Name]+1
		}
		if ok {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("not as asked within %s: %s", limit, describe())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// once checks that no machine is given twice.
func (c *chaos) once(all []view) {
	c.Helper()
	holder := map[string]string{}
	for _, v := range all {
		for _, n := range v.Nodes {
			if other, taken := holder[n.Machine]; taken {
				c.Fatalf("machine %s is given to %s and %s/%s", n.Machine, other, v.Name, n.Name)
			}
			holder[n.Machine] = v.Name + "/" + n.Name
		}
	}
}

func TestCrashKillsAtRandomMomentsLoseNothing(t *testing.T) {
	testall.Only(t)
	databases(t, func(t *testing.T, db string) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rig.New(t, db)
		c := &chaos{Rig: r, rnd: rand.New(rand.NewPCG(seed, 0)), want: map[string]int{}}
		controller := r.Start()
		r.Run("machines", "add", "--local", "9", "--wait")
		for i := range kills(t) {
			for range 1 + c.rnd.IntN(2) {
				c.ask()
			}
			time.Sleep(time.Duration(c.rnd.Int64N(int64(700 * time.Millisecond))))
			controller.Kill()
			controller = r.Start()
			if i%5 == 4 {
				c.settled(2 * time.Minute)
			}
		}
		c.settled(2 * time.Minute)
		for name := range c.want {
			works(r, name, c.want[name])
			r.Run("delete", name, "--wait")
		}
		r.Until("every machine is free again", func() bool {
			return strings.Count(r.Run("machines", "list"), "available") == 9
		})
		controller.Stop()
		r.NothingLeft()
	})
}

func TestCrashAnotherControllerTakesOver(t *testing.T) {
	r := rig.New(t, kindstest.EmptyPostgres(t))
	first := r.Start()
	r.Run("machines", "add", "--local", "5", "--wait")
	r.Start()
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 4\n")) // both work on it
	time.Sleep(150 * time.Millisecond)
	first.Kill()
	start := time.Now()
	ready(r, "hello")
	t.Logf("ready %.1f s after the first controller was killed", time.Since(start).Seconds())
	works(r, "hello", 4)
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
}

// A controller that is stopped in the middle of its steps loses them to another, and finds out when it goes on.
func TestCrashAStoppedControllerIsFenced(t *testing.T) {
	testall.Only(t)
	r := rig.New(t, kindstest.EmptyPostgres(t))
	file := r.File("hello.yaml", "name: hello\nnodes: 4\n")
	fenced := false
	for delay := 20 * time.Millisecond; delay < 400*time.Millisecond && !fenced; delay += 40 * time.Millisecond {
		first := r.Start()
		if delay == 20*time.Millisecond {
			r.Run("machines", "add", "--local", "5", "--wait")
		}
		r.Run("create", "-f", file)
		time.Sleep(delay)
		if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		second := r.Start()
		ready(r, "hello")
		t.Logf("stopped %s after the request: ready %.1f s later", delay, time.Since(start).Seconds())
		if err := first.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // it goes on where it was, and must be refused
		fenced = strings.Contains(first.Tail(), "another controller has taken over")
		works(r, "hello", 4)
		r.Run("delete", "hello", "--wait")
		first.Stop()
		time.Sleep(12 * time.Second) // a sweep takes what the first may still have made
		r.NothingLeft()
		second.Stop()
	}
	if !fenced {
		t.Error("no stopped controller was caught in a step")
	}
}

// ready waits until a cluster is.
func ready(r *rig.Rig, name string) {
	r.Helper()
	r.Until("the cluster is ready", func() bool {
		var v view
		r.Get(&v, "get", name)
		return v.Phase == "ready"
	})
}

// works runs a job on all of a cluster's nodes.
func works(r *rig.Rig, name string, nodes int) {
	r.Helper()
	n := strconv.Itoa(nodes)
	got := r.Muster("ssh", name, "--", "srun -N"+n+" hostname | sort -u | wc -l")
	if strings.TrimSpace(got.Out) != n {
		r.Errorf("a job ran on %s of %s nodes: %s\n%s\n%s\n%s", strings.TrimSpace(got.Out), n, got.Err,
			r.Muster("ssh", name, "--", "sinfo -N -l; hostname -I").Out, r.Muster("describe", name).Out, r.Muster("events", name).
				Out)
	}
}
