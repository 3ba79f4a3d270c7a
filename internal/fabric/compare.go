package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Check says what is wrong with an intent by itself: a key twice or out of range, so that two partitions cannot be told apart, or
// a member that no port can be.
func (i Intent) Check() error {
	seen := map[Key]bool{}
	for _, p := range i.Partitions {
		switch {
		case p.Key < FirstKey || p.Key > LastKey:
			return fmt.Errorf("%w: %s is no partition's key; they are %s to %s", ErrRefused, p.Key, FirstKey, LastKey)
		case seen[p.Key]:
			return fmt.Errorf("%w: partition %s is there twice, so that two tenants would share it", ErrRefused, p.Key)
		}
		seen[p.Key] = true
		for port, as := range p.Members {
			if err := port.check(); err != nil {
				return fmt.Errorf("%w: partition %s: %w", ErrRefused, p.Key, err)
			}
			if as != Limited && as != Full {
				return fmt.Errorf("%w: port %s is to be in partition %s as %d, which is neither limited nor full", ErrRefused,
					port, p.Key, as)
			}
		}
	}
	for _, port := range i.Managers {
		if err := port.check(); err != nil {
			return fmt.Errorf("%w: managers: %w", ErrRefused, err)
		}
	}
	if len(i.Managers) == 0 {
		return fmt.Errorf("%w: no subnet manager's port is named, and without one in the default partition nothing can be "+
			"managed", ErrRefused)
	}
	return nil
}

// Tables is what each port that the intent names is to hold, sorted; all others hold the limited default entry alone.
func (i Intent) Tables() map[GUID][]Entry {
	all := map[GUID][]Entry{}
	for _, p := range i.Partitions {
		for port, as := range p.Members {
			if all[port] == nil {
				all[port] = []Entry{DefaultKey.In(Limited)}
			}
			all[port] = append(all[port], p.Key.In(as))
		}
	}
	for _, port := range i.Managers {
		if all[port] == nil {
			all[port] = []Entry{0}
		}
		all[port][0] = DefaultKey.In(Full)
	}
	for _, entries := range all {
		slices.Sort(entries)
	}
	return all
}

// Compare says how what was read differs from the intent, port by port in their order; nil where all is as it should be.
// Ports that the intent names and that did not answer are in it; others that are silent cannot be known of.
func Compare(i Intent, seen Tables) []Difference {
	var all []Difference
	wanted := i.Tables()
	for port, table := range seen {
		want, named := wanted[port]
		if !named {
			want = []Entry{DefaultKey.In(Limited)}
		}
		d := Difference{Port: port}
		for _, e := range table.Entries {
			if !slices.Contains(want, e) {
				d.Surplus = append(d.Surplus, e)
			}
		}
		for _, e := range want {
			if !slices.Contains(table.Entries, e) {
				d.Missing = append(d.Missing, e)
			}
		}
		if d.Surplus != nil || d.Missing != nil {
			all = append(all, d)
		}
	}
	for port := range maps.Keys(wanted) {
		if _, answered := seen[port]; !answered {
			all = append(all, Difference{Port: port, Silent: true})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.Port, b.Port) })
	return all
}
