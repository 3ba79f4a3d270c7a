package spec

import (
	"fmt"
	"time"
)

// rule is what one field alone cannot say.
type rule struct {
	schema map[string]any // the same in JSON Schema, if it can say it, for the mapping named by at
	at     string         // path pattern
	check  func(*reader, Cluster)
}

// rules run on whatever could be read; a value that is wrong by itself is absent from the Cluster but has a place, so that
// nothing is called missing that was only mistaken.
var rules = []rule{
	{at: "", check: nodesOrQueues, schema: map[string]any{"oneOf": []any{needs("nodes"), needs("queues")}}},
	{at: "queues[]", check: queueSizes, schema: map[string]any{"oneOf": []any{
		without(needs("nodes"), "min", "max"), without(needs("max"), "nodes"),
	}}},
	{check: namedOnce}, {check: homeIsLarge},
	{check: oneSite},
	{check: plainIsFixed}, {check: qosIsKept},
	{check: wholeOrPart},
	{check: nearDevices},
}

func needs(field string) map[string]any { return map[string]any{"required": []any{field}} }

// without refuses fields beside the needed one.
func without(schema map[string]any, refused ...string) map[string]any {
	properties := map[string]any{}
	for _, field := range refused {
		properties[field] = false
	}
	schema["properties"] = properties
	return schema
}

func (r *reader) applyRules(c Cluster) {
	for _, rule := range rules {
		rule.check(r, c)
	}
}

func nodesOrQueues(r *reader, _ Cluster) {
	nodes, queues := r.written("nodes"), r.written("queues")
	switch {
	case nodes && queues:
		r.report(CodeConflict, "nodes", r.places["nodes"], "nodes and queues cannot be used together",
			"keep queues, and write nodes: N in each")
	case !nodes && !queues:
		r.report(CodeMissingField, "nodes", r.places[""], "nodes or queues is missing", "write nodes: 16")
	}
}

func queueSizes(r *reader, c Cluster) {
	for i, q := range c.Queues {
		path := fmt.Sprintf("queues[%d]", i)
		most := path + ".max"
		switch {
		case r.refused(path):
			// it is no queue at all
		case r.written(path + ".nodes"):
			for _, p := range []string{path + ".min", path + ".max"} {
				if r.written(p) {
					r.report(CodeConflict, p, r.places[p], "cannot be used together with nodes",
						"nodes: N is short for min: N and max: N")
				}
			}
		case !r.written(most):
			r.report(CodeMissingField, most, r.places[path], "nodes or max is missing",
				"write nodes: N for a queue of fixed size")
		case q.Max == nil || q.Min == nil && r.written(path+".min"):
			// reported where it was read
		case q.Min != nil && *q.Min > *q.Max:
			r.report(CodeBadValue, path+".min", r.places[path+".min"],
				fmt.Sprintf("must be at most max, which is %d, not %d", *q.Max, *q.Min), "")
		}
	}
}

// homeIsLarge refuses a /home that no file system could be made of.
func homeIsLarge(r *reader, c Cluster) {
	for i, s := range c.Storage {
		if mib := MiB(s.Size); s.Size != "" && mib > 0 && mib < LeastHome {
			path := fmt.Sprintf("storage[%d].size", i)
			r.report(CodeBadValue, path, r.places[path], fmt.Sprintf("must be at least %dMiB, not %s", LeastHome, s.Size), "")
		}
	}
}

// namedOnce keeps two entries of a list from the same name or mount point.
func namedOnce(r *reader, c Cluster) {
	names := map[string]int{}
	for i, q := range c.Queues {
		r.once(names, q.Name, fmt.Sprintf("queues[%d].name", i), "another queue has this name")
		classes := map[string]int{}
		r.once(classes, q.Class, fmt.Sprintf("queues[%d].class", i), "")
		for j, class := range q.Or {
			r.once(classes, class, fmt.Sprintf("queues[%d].or[%d]", i, j), "the queue names this class already")
		}
	}
	qos := map[string]int{}
	for i, q := range c.QOS {
		r.once(qos, q.Name, fmt.Sprintf("qos[%d].name", i), "another QOS has this name")
	}
	users := map[string]int{}
	for i, s := range c.Shares {
		r.once(users, s.User, fmt.Sprintf("shares[%d].user", i), "this user has a share already")
	}
	apps := map[string]int{}
	for i, app := range c.Apps() {
		r.once(apps, app.Name, fmt.Sprintf("access.apps[%d].name", i), "another app has this name")
	}
	mounts := map[string]int{}
	for i, s := range c.Storage {
		r.once(mounts, s.Mount, fmt.Sprintf("storage[%d].mount", i), "another file system is mounted here")
	}
}

func (r *reader) once(lines map[string]int, name, path, text string) {
	if name == "" {
		return
	}
	if line, twice := lines[name]; twice {
		r.report(CodeDuplicateValue, path, r.places[path], text, fmt.Sprintf("first on line %d", line))
		return
	}
	lines[name] = r.places[path].line
}

// oneSite refuses what would otherwise be ignored: with one site there is nothing to prefer.
func oneSite(r *reader, c Cluster) {
	if len(c.Site) > 1 {
		r.report(CodeNotAvailable, "site[1]", r.places["site[1]"], "not available yet: several sites in order of preference",
			"name one site, as in site: "+c.Site[0])
	}
}

// plainIsFixed refuses queues that grow with their jobs where nothing knows of jobs.
func plainIsFixed(r *reader, c Cluster) {
	if c.Scheduler() != SchedulerNone {
		return
	}
	for i, q := range c.Queues {
		least, path := 0, fmt.Sprintf("queues[%d].max", i)
		if q.Min != nil {
			least = *q.Min
		}
		if q.Max != nil && least < *q.Max {
			r.report(CodeConflict, path, r.places[path],
				"a queue that grows with its jobs needs a scheduler, and this cluster has none",
				"write nodes: N for a queue of fixed size; `muster scale` changes it")
		}
	}
}

// qosIsKept refuses QOS and shares where nothing keeps account of who uses how much, and times that would be rounded.
func qosIsKept(r *reader, c Cluster) {
	for field, n := range map[string]int{"qos": len(c.QOS), "shares": len(c.Shares)} {
		if n > 0 && c.Accounting != "" && c.Accounting != AccountingFull {
			r.report(CodeConflict, field, r.places[field],
				"needs the accounts of jobs, which accounting: "+c.Accounting+" does not keep",
				"write accounting: full, or leave it out")
		}
	}
	for i, q := range c.QOS {
		if path := fmt.Sprintf("qos[%d].max_time", i); Duration(q.MaxTime)%time.Minute != 0 {
			r.report(CodeBadValue, path, r.places[path], "must be whole minutes, not "+q.MaxTime, "")
		}
	}
}

// wholeOrPart refuses parts of machines where the file asks for whole ones, or for none.
func wholeOrPart(r *reader, c Cluster) {
	if c.Isolation != IsolationMetal && c.Isolation != IsolationLocal {
		return
	}
	for i := range c.Queues {
		if path := fmt.Sprintf("queues[%d].vm", i); r.written(path) {
			r.report(CodeConflict, path, r.places[path], "virtual machines cannot be used with isolation: "+c.Isolation,
				"write isolation: vm, or auto")
		}
	}
}

// nearDevices refuses words about where devices are if there are none of them.
func nearDevices(r *reader, c Cluster) {
	for i, q := range c.Queues {
		if q.VM == nil {
			continue
		}
		path, none := fmt.Sprintf("queues[%d].vm", i), !r.written(fmt.Sprintf("queues[%d].vm.devices", i))
		if at := path + ".locality"; none && r.written(at) {
			r.report(CodeConflict, at, r.places[at], "is about devices, and the node has none",
				"write devices: {gpu: 1}, or leave it out")
		}
		at := path + ".gpu_direct"
		if q.VM.GPUDirect && (none || q.VM.Devices == nil || q.VM.Devices.GPU == 0 || q.VM.Devices.IB == 0) {
			r.report(CodeConflict, at, r.places[at], "needs both GPUs and InfiniBand adapters",
				"write devices: {gpu: 1, ib: 1}, or leave it out")
		}
	}
}
