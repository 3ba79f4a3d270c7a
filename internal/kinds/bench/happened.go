package bench

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
)

// mostHappened is how many lines say what has happened to a cluster: the last ones.
const mostHappened = 200

// Happened says how long each of what has happened to a cluster took, in seconds, by its events. There is a line for each request
// until the cluster was as asked for, and for each time that it was whole again by itself; and for each node, one for each of the
// phases in which it began, and one for all of them together:
//
//	start 0.481
//	node n1 booting 0.203
//	node n1 ready 0.352
//	pause 0.602
func Happened(events []core.Event) string {
	type since struct {
		what string
		at   time.Time
	}
	var lines []string
	add := func(what string, from, to time.Time) {
		lines = append(lines, fmt.Sprintf("%s %.3f", what, to.Sub(from).Seconds()))
	}
	asked, begins, phases := since{}, map[string]time.Time{}, map[string]since{}
	ends := map[core.Phase]bool{core.Ready: true, cluster.Paused: true}
	whole := false
	for _, e := range events {
		switch {
		case e.Type == "cluster.requested":
			if what := requests()[strings.Split(e.Text, " ")[0]]; what != "" {
				asked = since{what, e.At}
			}
		case e.Type == "cluster.phase" && ends[e.Phase]:
			if asked.what != "" && (asked.what == "pause") == (e.Phase == cluster.Paused) {
				add(asked.what, asked.at, e.At)
				asked = since{}
			}
			whole = e.Phase == core.Ready
		case e.Type == "cluster.phase":
			if whole && asked.what == "" && (e.Phase == cluster.Provisioning || e.Phase == core.Degraded) {
				asked = since{"mend", e.At}
			}
			whole = false
		case e.Type == "node.phase":
			was, starts := phases[e.Node], false
			switch e.Phase {
			case node.Attaching, node.Booting, node.Joining, node.Testing:
				starts = true
			}
			if was.what != "" && (starts || e.Phase == core.Ready) {
				add("node "+e.Node+" "+was.what, was.at, e.At)
			}
			if e.Phase == core.Ready && !begins[e.Node].IsZero() {
				add("node "+e.Node+" ready", begins[e.Node], e.At)
			}
			if !starts {
				delete(phases, e.Node)
				delete(begins, e.Node)
				continue
			}
			phases[e.Node] = since{string(e.Phase), e.At}
			if begins[e.Node].IsZero() {
				begins[e.Node] = e.At
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-mostHappened):], "\n")
}

// requests are the first words of requests that change what nodes a cluster has, by what they are called here. A pause that waits
// for jobs, and a start that waits for its time, say nothing of how fast they are.
func requests() map[string]string {
	return map[string]string{"create": "start", "add": "grow", "release": "shrink", "reboot": "roll", "pause,": "pause",
		"resume": "resume", "resume,": "resume"}
}

// TellsWhatHappened says that a run's recipes ask for it.
func (p Plan) TellsWhatHappened() bool {
	for _, r := range p.Recipes {
		if strings.Contains(r.Run, round.Happened) {
			return true
		}
	}
	return false
}
