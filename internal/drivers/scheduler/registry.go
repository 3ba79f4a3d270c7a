package scheduler

import "muster/internal/kit/lists"

// Registry is a list of schedulers. The first is what a cluster has whose file names none.
type Registry []Factory

// Find returns the scheduler of that name; "" is the first.
func (r Registry) Find(name string) (Factory, bool) {
	if name == "" && len(r) > 0 {
		return r[0], true
	}
	return lists.Find(r, func(f Factory) bool { return f.Name == name })
}

// Of is Find for those who only ask: one that is not in the list can nothing.
func (r Registry) Of(name string) Factory {
	f, found := r.Find(name)
	if !found {
		return Factory{Name: name, Title: name}
	}
	return f
}
