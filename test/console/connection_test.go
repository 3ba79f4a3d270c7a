package console_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// wire is the network between a browser and a controller.
type wire struct {
	net.Listener
	to    atomic.Pointer[string] // host:port of the controller
	delay atomic.Int64           // nanoseconds by which whatever is sent comes later, one piece after the other
}

// newWire is one that leads to a controller.
func newWire(t *testing.T, c *rig.Controller) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l}
	w.leads(c)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", *w.to.Load())
			if err != nil {
				_ = near.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
				all.Go(func() { w.carry(ends[0], ends[1]) })
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() }) // the browser and the controller have ended
	return w
}

func (w *wire) leads(c *rig.Controller) {
	address := strings.TrimPrefix(c.URL, "http://")
	w.to.Store(&address)
}

// carry brings what comes from one end to the other until either has closed.
func (w *wire) carry(from, to net.Conn) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		time.Sleep(time.Duration(w.delay.Load()))
		if n > 0 && err == nil {
			_, err = to.Write(piece[:n])
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

// The controller is killed while somebody writes a cluster's file, and after it has come back, the network is slow.
func TestTheConsoleLastsThroughALossAndASlowNetwork(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	w := newWire(t, c)
	b := open(t)
	b.expects("401", "/v1/login", "net::ERR", "Failed to fetch") // before it is signed in; while there is no controller
	_, port, err := net.SplitHostPort(w.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	site := "http://muster.localhost:" + port
	_, code, _ := strings.Cut(strings.TrimSpace(r.Run("console", "--no-browser")), "/sign-in")
	b.goTo(site + "/sign-in" + code)
	b.click("Sign in")
	b.click("New cluster")
	b.fill("Name", "kept")
	b.shows("Fits now")

	c.Kill()
	b.shows("old, tries again in")
	can := `document.querySelector('.plan .btn.main').ariaDisabled !== 'true'`
	b.until("nothing can be asked for", "!("+can+")")
	w.leads(r.Start())
	b.until("it is live again", `document.querySelector('.live')?.textContent === 'Live'`)
	b.shows("name: kept") // what was written is there
	b.until("it can be asked for", can)
	w.delay.Store(int64(300 * time.Millisecond))
	b.acts("Create kept", `location.pathname.endsWith('/clusters/kept')`)
	b.shows("head and 2 nodes ready")
	b.goTo(b.address())
	b.shows("head and 2 nodes ready")
	b.opens("s")
	b.fill("Nodes", "3")
	b.acts("Scale", noDialog)
	b.shows("head and 3 nodes ready")
	if out := r.Run("list"); strings.Count(out, "kept") != 1 {
		t.Errorf("it was created %d times: %s", strings.Count(out, "kept"), out)
	}
}
