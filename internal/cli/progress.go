package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "muster/api/v1"
)

// progress shows an operation on its way, on standard error.
type progress interface {
	event(apiv1.Event)
	cluster(apiv1.Cluster) // as it is now
	note(string)           // something to say while nothing happens
	draw()                 // called several times a second
	nodes() bool           // whether it shows the cluster's nodes
	end()
}

func (a *app) newProgress(name string, start time.Time) progress {
	if live(a.err) {
		return a.newPicture(name, start)
	}
	return &plainLines{app: a, start: start}
}

// plainLines is a line an event, for logs and pipes.
type plainLines struct {
	app   *app
	start time.Time
}

func (p *plainLines) tell(text string) {
	p.app.say("%7.1fs  %s", time.Since(p.start).Seconds(), text)
}

func (p *plainLines) event(e apiv1.Event)   { p.tell(who(e) + " " + what(e)) }
func (p *plainLines) note(text string)      { p.tell(text) }
func (p *plainLines) cluster(apiv1.Cluster) {}
func (p *plainLines) draw()                 {}
func (p *plainLines) nodes() bool           { return false }
func (p *plainLines) end()                  {}

// livePicture is a line for the cluster and one for each node, drawn again in place.
type livePicture struct {
	app   *app
	name  string
	start time.Time
	now   apiv1.Cluster
	seen  map[string]sighting // by node ID
	extra string
	drawn int // lines on the screen that are ours
}

func (a *app) newPicture(name string, start time.Time) *livePicture {
	return &livePicture{app: a, name: name, start: start, seen: map[string]sighting{}}
}

// sighting is when this program first saw a node in its phase: the controller's clock may differ from ours.
type sighting struct {
	phase apiv1.Phase
	at    time.Time
}

func (p *livePicture) event(apiv1.Event) { p.extra = "" }
func (p *livePicture) nodes() bool       { return true }

func (p *livePicture) note(text string) {
	p.extra = text
	p.draw()
}

func (p *livePicture) cluster(c apiv1.Cluster) {
	p.now = c
	for _, n := range c.Nodes {
		if p.seen[n.ID].phase != n.Phase {
			p.seen[n.ID] = sighting{n.Phase, time.Now()}
		}
	}
	p.draw()
}

func (p *livePicture) draw() {
	width, height := size(p.app.err)
	lines := p.lines(max(height-2, 2))
	p.app.err.redraw(p.drawn, lines, width)
	p.drawn = len(lines)
}

// lines is the picture in at most room lines; nodes on their way come before those that have arrived when not all fit.
func (p *livePicture) lines(room int) []shown {
	head := line("%6.1fs  cluster %s", time.Since(p.start).Seconds(), p.name)
	if p.now.Phase != "" {
		why := strings.TrimPrefix(strings.TrimPrefix(standing(p.now), string(p.now.Phase)), ": ")
		head += line(" %s  %s", p.app.paint(p.app.err, phaseColour(p.now.Phase), string(p.now.Phase)), why)
	}
	lines := []shown{head}
	if p.extra != "" {
		lines = append(lines, line("         %s", p.extra))
	}
	nodes := slices.Clone(p.now.Nodes)
	hidden := max(len(nodes)-(room-len(lines)), 0)
	if hidden > 0 {
		hidden++ // the line that counts them needs room too
		slices.SortStableFunc(nodes, func(a, b apiv1.Node) int { return arrived(a) - arrived(b) })
		nodes = nodes[:max(len(nodes)-hidden, 0)]
	}
	names := 0
	for _, n := range nodes {
		names = max(names, len(n.Name))
	}
	for _, n := range nodes {
		phase := p.app.paint(p.app.err, phaseColour(n.Phase), fmt.Sprintf("%-9s", n.Phase))
		since := time.Since(p.seen[n.ID].at).Seconds()
		lines = append(lines, line("         %-*s  %s %6.1fs  %s", names, n.Name, phase, since, n.Reason))
	}
	if hidden > 0 {
		lines = append(lines, line("         … and %d more", hidden))
	}
	return lines
}

func arrived(n apiv1.Node) int {
	if n.Phase == apiv1.Ready {
		return 1
	}
	return 0
}

// end takes the picture away: what follows says how it ended.
func (p *livePicture) end() {
	if p.drawn > 0 {
		p.app.err.redraw(p.drawn, nil, 0)
		p.drawn = 0
	}
}
