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

	"muster/internal/store/storetest"
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
	t.Run("postgres", func(t *testing.T) { test(t, storetest.Postgres(t)) })
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
	return 26
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
			out := r.Run("ssh", name, "--", "srun -N"+strconv.Itoa(c.want[name])+" hostname | wc -l")
			if strings.TrimSpace(out) != strconv.Itoa(c.want[name]) {
				t.Errorf("cluster %s does not work after all that: %s", name, out)
			}
			r.Run("delete", name, "--wait")
		}
		r.Eventually(time.Minute, "every machine is free again", func() bool {
			return strings.Count(r.Run("machines", "list"), "available") == 9
		})
		controller.Stop()
		r.NothingLeft()
	})
}

func TestCrashAnotherControllerTakesOver(t *testing.T) {
	for _, signal := range []struct {
		name string
		send syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}} {
		t.Run(signal.name, func(t *testing.T) {
			r := rig.New(t, storetest.Postgres(t))
			first := r.Start()
			r.Run("machines", "add", "--local", "5", "--wait")
			second := r.Start()
			file := r.File("hello.yaml", "name: hello\nnodes: 4\n")
			// The command line finds the second controller; the first works too. It dies in the middle of the create.
			r.Run("create", "-f", file)
			time.Sleep(150 * time.Millisecond)
			if err := first.Process.Signal(signal.send); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			r.Eventually(30*time.Second, "the cluster is ready", func() bool {
				var v view
				r.Get(&v, "get", "hello")
				return v.Phase == "ready"
			})
			t.Logf("ready %.1f s after the first controller was %s", time.Since(start).Seconds(), signal.name)
			if signal.send == syscall.SIGSTOP {
				_ = first.Process.Signal(syscall.SIGCONT)
				time.Sleep(3 * time.Second) // it finds out that it was fenced
			}
			var v view
			r.Get(&v, "get", "hello")
			if v.Phase != "ready" || len(v.Nodes) != 5 {
				t.Errorf("%+v", v)
			}
			if out := r.Run("ssh", "hello", "--", "srun -N4 hostname | wc -l"); strings.TrimSpace(out) != "4" {
				t.Error(out)
			}
			r.Run("delete", "hello", "--wait")
			time.Sleep(time.Second)
			r.NothingLeft()
			if signal.send == syscall.SIGSTOP {
				first.Stop()
			}
			second.Stop()
		})
	}
}
