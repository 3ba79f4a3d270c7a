package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
)

// story lets a cluster become ready, an event at a time.
func story(l *life, between func()) {
	l.happens(apiv1.Event{Type: "cluster.requested", Text: "create 1 head + 1 nodes"}, nil)
	l.becomes(apiv1.Provisioning, "starts 2 nodes")
	for _, phase := range []apiv1.Phase{apiv1.Booting, apiv1.Ready} {
		for i, node := range []string{"head", "n1"} {
			between()
			l.happens(apiv1.Event{Type: "node.phase", Node: node, Phase: phase, Text: "as told"}, func(c *apiv1.Cluster) {
				nodes := slices.Clone(c.Nodes)
				nodes[i].Phase = phase
				c.Nodes = nodes
			})
		}
	}
	l.becomes(apiv1.Ready, "all nodes ready")
}

func TestAWaitTellsEveryEventOnceOverLostConnections(t *testing.T) {
	for _, brittle := range []bool{false, true} {
		t.Run(fmt.Sprint("brittle ", brittle), func(t *testing.T) {
			s, l := newSite(t), newLife("hello")
			resumed := l.serve(s, brittle)
			s.HandleFunc("POST /v1/clusters", func(w http.ResponseWriter, _ *http.Request) {
				reply(w, http.StatusAccepted, l.answer("create"))
				go story(l, func() {
					for brittle && t.Context().Err() == nil && len(resumed()) <= l.count() { // until the client has come back
						time.Sleep(time.Millisecond)
					}
					time.Sleep(3 * time.Millisecond)
				})
			})
			r := muster(t, "create", "hello", "--nodes", "1", "--wait")
			r.wants(t, 0, "cluster provisioning: starts 2 nodes\n", "n1 booting: as told\n",
				"cluster hello is ready: 1 head + 1 node in ", "`muster ssh hello` logs in to it\n")
			for _, once := range []string{"head booting", "n1 booting", "head ready", "n1 ready"} {
				if n := strings.Count(r.err, once); n != 1 {
					t.Errorf("%q was told %d times", once, n)
				}
			}
			if r.out != "" {
				t.Errorf("words for people on standard output: %s", r.out)
			}
			from := resumed()
			if from[0] != "0" || !slices.IsSorted(from) || brittle && len(from) < 2 {
				t.Errorf("streams began after %q", from)
			}
		})
	}
}

func TestAWaitEndsWithoutAnEventToo(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	s.HandleFunc("PUT /v1/clusters/hello", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusAccepted, l.answer("change"))
		time.AfterFunc(50*time.Millisecond, func() {
			l.lock.Lock()
			defer l.lock.Unlock()
			l.cluster.Phase, l.cluster.Reached = apiv1.Ready, 1
		})
	})
	musterWith(t, brisk(), "name: hello\nnodes: 1\n", "apply", "-f", "-", "--wait", "-o", "json").wants(t, 0, `"phase": "ready"`)
}

func TestAReadyClusterOfAnOlderGenerationIsWaitedFor(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	l.cluster.Phase, l.cluster.Reached, l.cluster.Generation = apiv1.Ready, 1, 2
	s.answers("POST /v1/clusters/hello/scale", http.StatusAccepted, l.answer("change"))
	muster(t, "scale", "hello", "3", "--wait", "--timeout", "100ms").
		wants(t, exitOther, "not done after 100ms: cluster hello is ready")
}

func TestATimeoutSaysHowThingsStand(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	l.becomes(apiv1.Provisioning, "1 of 2 nodes ready; joining: n1")
	l.cluster.Lacks = "class local: none is free"
	s.answers("POST /v1/clusters", http.StatusAccepted, l.answer("create"))
	muster(t, "create", "hello", "--nodes", "1", "--wait", "--timeout", "100ms").wants(t, exitOther,
		"not done after 100ms: cluster hello is provisioning: 1 of 2 nodes ready; joining: n1; lacks: class local: none is "+
			"free (the operation goes on; `muster describe hello`")
}

func TestAWaitWithoutNewsSaysWhatItWaitsFor(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	l.becomes(apiv1.Provisioning, "1 of 2 nodes ready; joining: n1")
	s.answers("POST /v1/clusters", http.StatusAccepted, l.answer("create"))
	pace := brisk()
	pace.quiet = time.Nanosecond
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	s.HandleFunc("GET /v1/clusters/c1", func(w http.ResponseWriter, _ *http.Request) {
		if looks++; looks == 5 {
			cancel()
		}
		reply(w, http.StatusOK, l.now())
	})
	musterUntil(ctx, pace, nil, "create", "hello", "--nodes", "1", "--wait").
		wants(t, exitOther, "s  still provisioning: 1 of 2 nodes ready; joining: n1\n")
}

func TestAnInterruptedWaitLeavesTheOperationAlone(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	s.answers("POST /v1/clusters", http.StatusAccepted, l.answer("create"))
	ctx, cancel := context.WithCancel(t.Context())
	s.HandleFunc("GET /v1/clusters/c1", func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		reply(w, http.StatusOK, l.now())
	})
	r := musterUntil(ctx, brisk(), nil, "create", "hello", "--nodes", "1", "--wait")
	r.wants(t, exitOther, "the operation goes on; `muster describe hello`")
	for _, request := range s.asked() {
		if strings.HasPrefix(request, "DELETE") {
			t.Error(request)
		}
	}
}

func TestADeletionEndsWithItsReceipt(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	s.HandleFunc("DELETE /v1/clusters/hello", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusAccepted, l.answer("delete"))
		l.becomes(apiv1.Deleting, "releases 2 nodes")
		l.happens(apiv1.Event{Phase: apiv1.Deleted, Text: "nothing is left"}, func(c *apiv1.Cluster) {
			c.Phase, c.Nodes = apiv1.Deleted, nil
			c.Receipt = &apiv1.Receipt{Machines: []string{"local-1", "local-2"}, Seconds: 61.5}
		})
	})
	r := muster(t, "delete", "hello", "--wait")
	r.wants(t, 0, "cluster hello is deleted in")
	for _, words := range []string{"hello (c1)", "local-1, local-2", "61.5 s"} {
		if !strings.Contains(r.out, words) {
			t.Errorf("the receipt lacks %q: %s", words, r.out)
		}
	}
}

func TestAClusterThatSomebodyDeletesIsNotWaitedForForEver(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	l.serve(s, false)
	s.answers("POST /v1/clusters", http.StatusAccepted, l.answer("create"))
	l.becomes(apiv1.Deleting, "releases 2 nodes")
	muster(t, "create", "hello", "--nodes", "1", "--wait").wants(t, exitOther, "it was deleted meanwhile")
}

func TestEventsAreFollowedOneObjectALine(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	resumed := l.serve(s, true)
	story(l, func() {})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go func() { // it has printed what there was when it asks for what comes after the last
		for ctx.Err() == nil && !slices.Contains(resumed(), fmt.Sprint(l.count())) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	r := musterUntil(ctx, brisk(), nil, "events", "hello", "-w", "--after", "2", "-o", "json")
	r.wants(t, 0)
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], `{"seq":3,`) {
		t.Errorf("%d lines:\n%s", len(lines), r.out)
	}
	if from := resumed(); from[0] != "2" {
		t.Errorf("streams began after %q", from)
	}
}

func TestAPictureFitsItsTerminal(t *testing.T) {
	p := (&app{}).newPicture("big", time.Now())
	c := apiv1.Cluster{Phase: apiv1.Provisioning, Reason: "on its way"}
	for i := range 50 {
		n := apiv1.Node{ID: fmt.Sprint(i), Name: fmt.Sprintf("n%d", i+1), Phase: apiv1.Ready}
		if i == 49 {
			n.Phase = apiv1.Booting
		}
		c.Nodes = append(c.Nodes, n)
	}
	p.now = c
	lines := p.lines(10)
	if len(lines) != 10 {
		t.Errorf("%d lines in a room of 10", len(lines))
	}
	text := string(joined(lines, "\n"))
	if !strings.Contains(text, "n50") || !strings.Contains(text, "… and 42 more") {
		t.Errorf("the nodes that are waited for come first, the others are counted:\n%s", text)
	}
	if all := p.lines(51); len(all) != 51 {
		t.Errorf("%d lines in a room for all 51", len(all))
	}
}
