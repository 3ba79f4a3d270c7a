package place

import "errors"

// ErrLooks is the error of a choice that would have to look at more than it may.
var ErrLooks = errors.New("there is more to look at than one request may cost")

// Looks is how much may be looked at for one request, in all its choices together, in steps of about 25 ns. nil: no bound.
type Looks struct{ left int }

// NewLooks makes so many steps.
func NewLooks(steps int) *Looks { return &Looks{left: steps} }

// Take spends some steps, and says whether there were as many.
func (l *Looks) Take(steps int) bool {
	if l == nil {
		return true
	}
	l.left = max(l.left-steps, -1)
	return l.left >= 0
}

// Spent says that there were too few: what was chosen since is not to be used.
func (l *Looks) Spent() bool { return l != nil && l.left < 0 }

// PerMachine is what it costs to see whether a machine is of a class, in steps.
const PerMachine = 4

const (
	perSorted = 16 // a machine that is put in the order of names
	perPlaces = 8  // so many pairs of a node and a machine are looked at in one step, where places are chosen
	perPrice  = 8  // a device that is weighed for one that is asked for
)
